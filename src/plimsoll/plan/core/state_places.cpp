#include "plan/core/state_places.h"

#include <map>
#include <string_view>

namespace plimsoll::plan {

std::vector<const StatePlacement*> find_places(const graph::Graph& graph,
                                               std::span<const StatePlacement> states) {
  std::vector<const StatePlacement*> places(graph.states.size(), nullptr);
  std::map<std::string_view, const StatePlacement*> by_name;
  for (size_t s = 0; s < places.size(); ++s) {
    // The first program's variables come first, and in its order.
    if (s < states.size() && states[s].name == graph.states[s].name) {
      places[s] = &states[s];
      continue;
    }
    if (by_name.empty()) {
      for (const StatePlacement& state : states) by_name.emplace(state.name, &state);
    }
    const auto found = by_name.find(graph.states[s].name);
    if (found != by_name.end()) places[s] = found->second;
  }
  return places;
}

std::vector<graph::StateId> find_written(const graph::Graph& graph) {
  std::vector<graph::StateId> written(graph.values.size());
  for (size_t s = 0; s < graph.states.size(); ++s) {
    const graph::NodeId write = graph.states[s].write;
    if (!write.valid()) continue;
    graph::StateId& state = written[graph.node(write).inputs[0].index()];
    if (!state.valid()) state = graph::StateId(s);
  }
  return written;
}

}  // namespace plimsoll::plan
