#pragma once

// The geometry of a two-dimensional pooling, read from a node's attributes: {pool_size, strides,
// padding}. Padded positions are absent: they are never the maximum and never counted in a mean.

#include "graph/attributes.h"
#include "graph/op.h"
#include "ops/image/window2d.h"

namespace plimsoll::ops {

// Reads a node that its shape rule accepted; `height` and `width` are the input's.
Window2d pool2d_window(const graph::Attributes& attributes, int64_t height, int64_t width);

// What the shape rules of poolings share. Throws kModel: every window must meet the input.
Window2d checked_pool2d_window(const graph::NodeTypes& node, int64_t height, int64_t width);

}  // namespace plimsoll::ops
