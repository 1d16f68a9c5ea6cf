#include "graph/prune.h"

#include "graph/op.h"

namespace plimsoll::graph {
namespace {

struct Needed {
  std::vector<bool> values;
  std::vector<bool> nodes;
};

Needed find_needed(const Graph& graph) {
  Needed needed{std::vector<bool>(graph.values.size()), std::vector<bool>(graph.nodes.size())};
  for (ValueId id : graph.outputs) needed.values[id.index()] = true;
  for (ValueId id : graph.inputs) needed.values[id.index()] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    bool keep = node.writes.valid();
    for (ValueId output : node.outputs) keep = keep || needed.values[output.index()];
    if (!keep) continue;
    needed.nodes[i] = true;
    for (ValueId input : node.inputs) needed.values[input.index()] = true;
    for (ValueId output : node.outputs) needed.values[output.index()] = true;
  }
  return needed;
}

// New ids by old ones; invalid for what goes.
template <typename IdType>
std::vector<IdType> renumber(const std::vector<bool>& kept) {
  std::vector<IdType> ids(kept.size());
  size_t next = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) ids[i] = IdType(next++);
  }
  return ids;
}

template <typename IdType>
IdType moved(IdType id, const std::vector<IdType>& ids) {
  return id.valid() ? ids[id.index()] : id;
}

template <typename IdType>
void move_all(std::vector<IdType>& list, const std::vector<IdType>& ids) {
  for (IdType& id : list) id = ids[id.index()];
}

}  // namespace

Graph prune(const Graph& graph) {
  const Needed needed = find_needed(graph);
  std::vector<bool> kept_states(graph.states.size());
  for (size_t i = 0; i < graph.states.size(); ++i) {
    const StateVariable& state = graph.states[i];
    const bool read = state.incoming.valid() && needed.values[state.incoming.index()];
    kept_states[i] = read || state.write.valid();
  }
  const std::vector<ValueId> values = renumber<ValueId>(needed.values);
  const std::vector<NodeId> nodes = renumber<NodeId>(needed.nodes);
  const std::vector<StateId> states = renumber<StateId>(kept_states);

  Graph result;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!needed.values[i]) continue;
    Value value = graph.values[i];
    value.producer = moved(value.producer, nodes);
    value.state = moved(value.state, states);
    result.values.push_back(std::move(value));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!needed.nodes[i]) continue;
    Node node = graph.nodes[i];
    move_all(node.inputs, values);
    move_all(node.outputs, values);
    node.writes = moved(node.writes, states);
    result.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < graph.states.size(); ++i) {
    if (!kept_states[i]) continue;
    StateVariable state = graph.states[i];
    state.incoming = moved(state.incoming, values);
    state.write = moved(state.write, nodes);
    result.states.push_back(std::move(state));
  }
  result.inputs = graph.inputs;
  result.outputs = graph.outputs;
  move_all(result.inputs, values);
  move_all(result.outputs, values);
  return result;
}

}  // namespace plimsoll::graph
