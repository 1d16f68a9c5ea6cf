#include "ops/fuse/late_nodes.h"

#include <algorithm>
#include <utility>

#include "graph/op.h"

namespace plimsoll::ops {

using graph::Node;
using graph::NodeId;
using graph::ValueId;

LateNodes::LateNodes(const graph::Graph& graph)
    : graph_(graph),
      users_(graph::find_users(graph)),
      urgent_(graph.nodes.size()),
      late_(graph.values.size()),
      is_held_(graph.nodes.size()) {
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const auto is_needed = [&](ValueId value) {
      return !is_number(value) && std::ranges::any_of(users_[value.index()], [&](NodeId user) {
        return urgent_[user.index()];
      });
    };
    urgent_[n] = has_samples(node.inputs) || has_samples(node.outputs) ||
                 std::ranges::any_of(node.outputs, is_needed);
  }
}

bool LateNodes::has_samples(const std::vector<ValueId>& values) const {
  return std::ranges::any_of(
      values, [&](ValueId value) { return graph_.value(value).type.shape.has_batch(); });
}

bool LateNodes::is_late(NodeId id) const {
  const Node& node = graph_.node(id);
  const auto is_late_value = [&](ValueId input) {
    return late_[input.index()] && !is_number(input);
  };
  if (std::ranges::any_of(node.inputs, is_late_value)) return true;
  if (!node.writes.valid()) return false;
  const ValueId before = graph_.state(node.writes).incoming;
  return before.valid() && std::ranges::any_of(users_[before.index()],
                                               [&](NodeId user) { return is_held_[user.index()]; });
}

void LateNodes::hold(NodeId node) {
  held_.push_back(node);
  is_held_[node.index()] = true;
  for (ValueId output : graph_.node(node).outputs) set_late(output, true);
}

std::vector<NodeId> LateNodes::take() {
  for (NodeId node : held_) {
    is_held_[node.index()] = false;
    for (ValueId output : graph_.node(node).outputs) set_late(output, false);
  }
  return std::exchange(held_, {});
}

bool LateNodes::is_number(ValueId id) const {
  const graph::Value& value = graph_.value(id);
  if (value.kind != graph::ValueKind::kNode) return false;
  const Node& producer = graph_.node(value.producer);
  return producer.op->traits().exchanges && producer.outputs.back() == id;
}

std::vector<ValueId> LateNodes::operands_of(const Node& node) const {
  std::vector<ValueId> operands;
  for (ValueId input : node.inputs) {
    if (!is_number(input)) operands.push_back(input);
  }
  return operands;
}

}  // namespace plimsoll::ops
