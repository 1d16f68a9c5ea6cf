#pragma once

// At how many shapes a node is called.

#include <cstdint>
#include <span>

#include "graph/op.h"
#include "graph/program.h"

namespace plimsoll::backend {

// So many kernels a node has at most: one for the block, and more where calls differ in their
// extents or in what the edges of an image take off their operands. `block` is concrete, of that
// program.
int64_t shape_count(std::span<const graph::Axis> axes, std::span<const int64_t> block,
                    const graph::Program& program);

}  // namespace plimsoll::backend
