#pragma once

// The gradient of a table (Embedding) as optimizers of Keras on TensorFlow get it: not a matrix,
// but the reads that it came from, each the number of a row and a gradient. Clipping and squaring
// go read by read, before the reads of a row are added up, so they give other results than the
// matrix would. Where a layer was called several times, the reads of all calls are one list.
//
//   rows read   2  0  2          by row   0: g1        squares of the reads   0: g1²
//   gradients   g0 g1 g2                  2: g0 + g2                          2: g0² + g2²
//
// A gradient that has another part (a regularizer's, a product with the table) is a matrix in Keras
// too.

#include <optional>
#include <string>

#include "graph/builder.h"

namespace plimsoll::layers {

struct TableReads {
  graph::ValueId rows;
  graph::ValueId gradients;
  int64_t table_rows = 0;
};

// The reads that `gradient` adds up; none where it is a matrix. Joins several lists, under `name`.
std::optional<TableReads> find_reads(graph::GraphBuilder& builder, graph::ValueId gradient,
                                     const std::string& name);

// By row of the table: the sums of the reads' "gradients", "squares" or "magnitudes".
graph::ValueId add_reads(graph::GraphBuilder& builder, const std::string& name,
                         const TableReads& reads, const std::string& what);

}  // namespace plimsoll::layers
