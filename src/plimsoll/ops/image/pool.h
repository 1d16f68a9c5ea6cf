#pragma once

// The geometry of a pooling of any rank, read from a node's attributes: {pool_size, strides,
// padding}. Padded positions are absent: they are never the maximum and never counted in a mean.

#include <span>

#include "graph/attributes.h"
#include "graph/op.h"
#include "ops/image/windows.h"

namespace plimsoll::ops {

// Reads a node that its shape rule accepted; `sizes` are the input's, outermost first.
Windows pool_windows(const graph::Attributes& attributes, std::span<const int64_t> sizes);
Windows pool2d_window(const graph::Attributes& attributes, int64_t height, int64_t width);

// What the shape rules of poolings share. Throws kModel: every window must meet the input.
Windows checked_pool_windows(const graph::NodeTypes& node, std::span<const int64_t> sizes);
Windows checked_pool2d_window(const graph::NodeTypes& node, int64_t height, int64_t width);

}  // namespace plimsoll::ops
