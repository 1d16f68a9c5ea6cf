#pragma once

// What a catalog may remember of a graph while somebody asks about all of its nodes.
//
// A node's box may depend on all that comes before it. Asked node by node, a catalog that forgets
// walks through the graph once for each; one that remembers looks at every node once. Forgetting
// is always right: nothing here changes an answer.

#include <memory>

#include "graph/kernel_catalog.h"

namespace plimsoll::graph {

// The interface of catalogs that have something to remember, besides KernelCatalog.
class GraphMemory {
 public:
  virtual ~GraphMemory() = default;
  virtual std::shared_ptr<const void> remember(const Graph& graph) const = 0;
};

// While what is returned lives, the graph neither changes nor moves. Null: this catalog has nothing
// to remember.
std::shared_ptr<const void> remember(const KernelCatalog& catalog, const Graph& graph);

}  // namespace plimsoll::graph
