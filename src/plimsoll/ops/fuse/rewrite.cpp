#include "ops/fuse/rewrite.h"

#include "base/error.h"

namespace plimsoll::ops {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::StateId;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

Replay::Replay(const Graph& graph, const graph::OpRegistry& registry)
    : source_(graph), builder_(registry), map_(graph.values.size()) {
  for (const graph::StateVariable& state : graph.states) builder_.state(state);
}

Graph Replay::run(const Visitor& visit) {
  for (size_t i = 0; i < source_.values.size(); ++i) {
    const Value& value = source_.values[i];
    switch (value.kind) {
      case ValueKind::kInput:
        map_[i] = builder_.input(value.name, value.type);
        break;
      case ValueKind::kState:
        map_[i] = builder_.read(value.state);
        builder_.mutable_graph().value(map_[i]).name = value.name;
        break;
      case ValueKind::kNode:
        visit_up_to(visit, value.producer.index() + 1);
        break;
    }
  }
  visit_up_to(visit, source_.nodes.size());
  for (ValueId output : source_.outputs) builder_.output(mapped(output));
  return builder_.finish();
}

void Replay::visit_up_to(const Visitor& visit, size_t end) {
  while (next_node_ < end) visit(*this, NodeId(next_node_++));
}

std::vector<ValueId> Replay::mapped(const std::vector<ValueId>& old) const {
  std::vector<ValueId> result;
  result.reserve(old.size());
  for (ValueId value : old) result.push_back(mapped(value));
  return result;
}

void Replay::copy(NodeId id, std::vector<ValueId> inputs) {
  const Node& node = source_.node(id);
  if (node.writes.valid()) {
    builder_.set_layer(node.layer);
    builder_.set_stage(node.stage);
    const NodeId copied = builder_.write(node.writes, inputs[0]);
    builder_.mutable_graph().node(copied).name = node.name;
    return;
  }
  add(id, node.op->name(), std::move(inputs), node.attributes, node.outputs);
}

void Replay::add(NodeId like, std::string_view op, std::vector<ValueId> inputs,
                 graph::Attributes attributes, const std::vector<ValueId>& outputs) {
  const Node& node = source_.node(like);
  builder_.set_layer(node.layer);
  builder_.set_stage(node.stage);
  const NodeId added = builder_.add(op, node.name, std::move(inputs), std::move(attributes));
  Graph& graph = builder_.mutable_graph();
  graph.node(added).name = node.name;
  const std::vector<ValueId> made = graph.node(added).outputs;
  PLIMSOLL_CHECK(made.size() == outputs.size(),
                 "a rewrite of " + node.name + " has another number of outputs");
  for (size_t i = 0; i < made.size(); ++i) {
    graph.value(made[i]).name = source_.value(outputs[i]).name;
    map_[outputs[i].index()] = made[i];
  }
}

}  // namespace plimsoll::ops
