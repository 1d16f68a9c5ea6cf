#include "graph/graph_memory.h"

namespace plimsoll::graph {

std::shared_ptr<const void> remember(const KernelCatalog& catalog, const Graph& graph) {
  const auto* memory = dynamic_cast<const GraphMemory*>(&catalog);
  return memory == nullptr ? nullptr : memory->remember(graph);
}

}  // namespace plimsoll::graph
