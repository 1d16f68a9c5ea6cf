#include "graph/kernel_catalog.h"

#include <algorithm>

#include "base/error.h"
#include "graph/op.h"

namespace plimsoll::graph {

std::vector<int64_t> concrete_block(const Graph& graph, NodeId node, const Block& block,
                                    int64_t batch) {
  const std::vector<Axis> axes = axes_of(graph, node);
  PLIMSOLL_CHECK(block.size() == axes.size(),
                 "a block needs one extent for each axis of " + graph.node(node).name);
  std::vector<int64_t> extents;
  extents.reserve(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t whole = axes[i].extent.at(batch);
    const int64_t wanted = axes[i].group > 0 ? axes[i].group : block[i];
    extents.push_back(wanted == kWholeAxis ? whole : std::min(wanted, whole));
  }
  return extents;
}

}  // namespace plimsoll::graph
