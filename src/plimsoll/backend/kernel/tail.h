#pragma once

// Whether a node is called at more than one shape.

#include <cstdint>
#include <span>

#include "graph/op.h"

namespace plimsoll::backend {

// Whether calls of a node differ in their extents, or in what the edges of an image take off their
// operands: then it has kernels for block and tail, else for the block alone. `block` is concrete,
// of a program of that batch.
bool has_tail(std::span<const graph::Axis> axes, std::span<const int64_t> block, int64_t batch);

}  // namespace plimsoll::backend
