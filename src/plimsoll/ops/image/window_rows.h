#pragma once

// The rows of images (graph/image_rows.h) as an axis of what moves a window over them.
//
// Rows of the result need some rows more above and below, clipped at the image's edges; the way
// back too. A gradient of weights sums over rows after the batch. Nothing here knows how large an
// image is worth cutting: blocks do.
//
//   conv2d, 3 x 3 "same"      rows [i, j) of y need rows [i − 1, j + 1) of x
//   max_pool2d, 2 x 2         rows [i, j) of y need rows [2 i, 2 j) of x
//   its gradient              "row" i is two rows of dx and needs row i of dy
//
// Where shapes do not lend themselves to it (rows left over after the last window, overlapping
// poolings on the way back) there is no such axis and images stay whole.

#include <vector>

#include "graph/op.h"
#include "ops/image/windows.h"

namespace plimsoll::ops {

// The axes of y = window(x): operand 0 is x, the outputs have y's rows.
std::vector<graph::Axis> window_axes(const graph::NodeTypes& node, const Window& rows);
// The axes of dx from dy: the inputs that have a batch have the rows of y, output 0 has those of x.
// `overlapping`: whether windows may share rows of x.
std::vector<graph::Axis> window_gradient_axes(const graph::NodeTypes& node, const Window& rows,
                                              bool overlapping);
// The axes of a sum over (x, dy): the gradient of the window's weights.
std::vector<graph::Axis> window_reduce_axes(const graph::NodeTypes& node, const Window& rows);

}  // namespace plimsoll::ops
