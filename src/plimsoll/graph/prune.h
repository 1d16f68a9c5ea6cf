#pragma once

// Removes what nobody needs: nodes that lead to no output and no state write.
//
// Inputs stay, because the input source counts them. Incoming values of state variables that
// nobody reads go, and so do variables that are neither read nor written. Names and order stay.

#include "graph/ir.h"

namespace plimsoll::graph {

Graph prune(const Graph& graph);

}  // namespace plimsoll::graph
