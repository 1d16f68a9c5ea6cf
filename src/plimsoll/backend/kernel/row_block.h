#pragma once

// A call for some rows of an image, as a call for all rows of a smaller image.
//
// Kernels know whole images. A block of rows is one: its operands are the rows that the block
// touches, and the padding above and below is what a window still finds outside of the image: all
// of it at the image's edges, none of it inside, where the operands hold the rows that the windows
// reach. What a kernel takes from the whole image all the same (the number of its pixels) is left
// in `whole_inputs`.
//
//   conv2d, 3 x 3 "same", 8 rows      rows [0, 4)          rows [4, 8)
//     x                               [0, 5), padding 1 0  [3, 8), padding 0 1

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ir.h"
#include "graph/op.h"

namespace plimsoll::backend {

// What a kernel is made for: a node's attributes, types and axes, of all rows or of a block's.
struct NodeProblem {
  graph::Attributes attributes;
  std::vector<graph::ValueType> inputs;
  std::vector<graph::ValueType> outputs;
  std::vector<graph::Axis> axes;
  std::vector<int64_t> extents;                // of the call, one per axis
  std::vector<graph::ValueType> whole_inputs;  // before take_row_block
  int rows_axis = -1;                          // among the node's axes
};

// Whether the call has less than all rows of its images. Extents that end before the rows mean all.
bool cuts_rows(std::span<const graph::Axis> axes, std::span<const int64_t> extents);

// The rows, from begin[rows] on (empty: from the first), become the whole: their axis goes.
void take_row_block(std::span<const int64_t> begin, NodeProblem& problem);

// First rows of blocks that differ in what the edges of the image take off their operands, each
// with so many rows as `extents` says, of a node whose blocks have `block`. Both concrete, one
// entry per axis, like those returned; a single entry of zeros where the rows are not cut.
std::vector<std::vector<int64_t>> find_row_positions(std::span<const graph::Axis> axes,
                                                     std::span<const int64_t> block,
                                                     std::span<const int64_t> extents);

}  // namespace plimsoll::backend
