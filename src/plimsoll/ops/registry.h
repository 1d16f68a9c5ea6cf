#pragma once

// All operators of Plimsoll: those of graph (accumulate, zeros, pack, state_write) and of ops.

#include "graph/op.h"

namespace plimsoll::ops {

// Built on first use; the same object for the life of the program.
const graph::OpRegistry& registry();

}  // namespace plimsoll::ops
