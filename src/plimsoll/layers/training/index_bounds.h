#pragma once

// Which numbers of a program's input name rows of a table, and of how many.
//
// A number that an Embedding looks up must name a row that is there. Where the number comes
// straight from an input, perhaps cut out, transposed or put beside others on its way, that can be
// checked when the data are read, and the error can name the sample. Numbers that a model computes
// are not followed.

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir.h"

namespace plimsoll::layers {

// Elements [begin + i * step, end + i * step) of each sample, i below `count`, name rows of a
// table: 0 to row_count - 1.
struct IndexBound {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t row_count = 0;
  std::string table{};  // name of the table's state variable
  int64_t step = 0;
  int64_t count = 1;
  friend bool operator==(const IndexBound&, const IndexBound&) = default;
};

// Finds the bounds of graph input `input`, without overlaps, in the order of their begins; the
// smallest table counts where several read an element. A column of a long sample is one bound.
// Throws kModel where the elements lie in more pieces without a pattern than can be kept.
std::vector<IndexBound> index_bounds(const graph::Graph& graph, int input);

}  // namespace plimsoll::layers
