#pragma once

// The operators that the graph itself needs: accumulate, zeros, ones, pack and state_write.
//
//   accumulate(a, b) → a + b       one link of autodiff's chains
//   zeros() {shape, dtype}         a gradient that nothing contributes to
//   ones() {shape, dtype}          where backward begins: d(loss)/d(loss)
//   pack(w) {layout, bytes}        a weight in a kernel's own layout, opaque
//   state_write(v)                 stores v into the node's state variable

#include "graph/op.h"

namespace plimsoll::graph {

void register_core_ops(OpRegistry& registry);

}  // namespace plimsoll::graph
