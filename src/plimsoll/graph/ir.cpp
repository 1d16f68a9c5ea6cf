#include "graph/ir.h"

#include "base/error.h"

namespace plimsoll::graph {
namespace {

std::vector<ValueType> types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<ValueType> types;
  types.reserve(values.size());
  for (ValueId id : values) types.push_back(graph.value(id).type);
  return types;
}

// Position of the first element of that name, as an id.
template <typename IdType, typename Table>
IdType find_by_name(const Table& table, std::string_view name) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].name == name) return IdType(i);
  }
  return IdType();
}

}  // namespace

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::kForward:
      return "forward";
    case Stage::kLoss:
      return "loss";
    case Stage::kBackward:
      return "backward";
    case Stage::kUpdate:
      return "update";
    case Stage::kMetric:
      return "metric";
  }
  PLIMSOLL_CHECK(false, "unknown stage");
}

std::string_view to_string(StateRole role) {
  switch (role) {
    case StateRole::kWeight:
      return "weight";
    case StateRole::kOptimizerSlot:
      return "slot";
    case StateRole::kMovingStatistic:
      return "moving_statistic";
    case StateRole::kMetric:
      return "metric";
    case StateRole::kCounter:
      return "counter";
    case StateRole::kHyperparameter:
      return "hyperparameter";
  }
  PLIMSOLL_CHECK(false, "unknown state role");
}

std::vector<ValueType> input_types(const Graph& graph, NodeId node) {
  return types_of(graph, graph.node(node).inputs);
}

std::vector<ValueType> output_types(const Graph& graph, NodeId node) {
  return types_of(graph, graph.node(node).outputs);
}

std::vector<std::vector<NodeId>> find_users(const Graph& graph) {
  std::vector<std::vector<NodeId>> users(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId input : graph.nodes[i].inputs) users[input.index()].push_back(NodeId(i));
  }
  return users;
}

NodeId find_node(const Graph& graph, std::string_view name) {
  return find_by_name<NodeId>(graph.nodes, name);
}

ValueId find_value(const Graph& graph, std::string_view name) {
  return find_by_name<ValueId>(graph.values, name);
}

StateId find_state(const Graph& graph, std::string_view name) {
  return find_by_name<StateId>(graph.states, name);
}

}  // namespace plimsoll::graph
