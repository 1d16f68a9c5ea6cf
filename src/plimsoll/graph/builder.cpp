#include "graph/builder.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"

namespace plimsoll::graph {
namespace {

// What a name is known by: itself, or where it is long its hash, so that no name is held twice.
// Where two long names had one hash, the later would get a number.
std::string key_of(std::string_view name) {
  constexpr size_t kLong = 64;
  return name.size() <= kLong ? std::string(name) : '#' + to_hex(hash_text(name));
}

// Keys lie in sorted runs whose lengths are the powers of two that add up to their number, the
// longest first: to put one in moves few, however many there are.
bool contains(const std::vector<std::string>& runs, std::string_view name) {
  const std::string key = key_of(name);
  auto begin = runs.begin();
  for (size_t left = runs.size(); left > 0;) {
    const size_t length = std::bit_floor(left);
    const auto end = begin + static_cast<int64_t>(length);
    if (std::binary_search(begin, end, key)) return true;
    begin = end;
    left -= length;
  }
  return false;
}

void insert(std::vector<std::string>& runs, std::string_view name) {
  runs.push_back(key_of(name));
  const auto last = static_cast<int64_t>(runs.size() & (~runs.size() + 1));
  for (int64_t length = 1; length < last; length *= 2) {
    std::inplace_merge(runs.end() - 2 * length, runs.end() - length, runs.end());
  }
}

// `wish`, or the first of wish_1, wish_2, … that is free.
std::string free_name(const std::vector<std::string>& taken, std::string_view wish) {
  std::string name(wish);
  for (int i = 1; contains(taken, name); ++i) name = fmt::format("{}_{}", wish, i);
  return name;
}

// "[conv1] conv1/relu (activation): " as far as known.
std::string place_of(std::string_view layer, std::string_view node, std::string_view op) {
  std::string text = layer.empty() ? "" : "[" + std::string(layer) + "] ";
  return text + std::string(node) + " (" + std::string(op) + "): ";
}

}  // namespace

GraphBuilder::GraphBuilder(const OpRegistry& registry, Graph graph)
    : registry_(registry), graph_(std::move(graph)) {
  for (const Value& value : graph_.values) value_names_.push_back(key_of(value.name));
  for (const Node& node : graph_.nodes) node_names_.push_back(key_of(node.name));
  std::sort(value_names_.begin(), value_names_.end());
  std::sort(node_names_.begin(), node_names_.end());
}

Graph GraphBuilder::finish() {
  value_names_.clear();
  node_names_.clear();
  return std::exchange(graph_, {});
}

std::string GraphBuilder::unique_node_name(std::string_view wish) const {
  return free_name(node_names_, wish);
}

std::string GraphBuilder::unique_value_name(std::string_view wish) const {
  return free_name(value_names_, wish);
}

ValueId GraphBuilder::input(std::string name, ValueType type) {
  const ValueId id(graph_.values.size());
  graph_.values.push_back({.name = unique_value_name(name),
                           .type = std::move(type),
                           .kind = ValueKind::kInput,
                           .input = static_cast<int>(graph_.inputs.size())});
  insert(value_names_, graph_.values.back().name);
  graph_.inputs.push_back(id);
  return id;
}

StateId GraphBuilder::state(StateVariable variable) {
  const StateId known = find_state(graph_, variable.name);
  if (known.valid()) {
    PLIMSOLL_CHECK(graph_.state(known).type == variable.type,
                   "state variable " + variable.name + " is declared with two types");
    return known;
  }
  variable.incoming = ValueId();
  variable.write = NodeId();
  graph_.states.push_back(std::move(variable));
  return StateId(graph_.states.size() - 1);
}

ValueId GraphBuilder::read(StateId state) {
  PLIMSOLL_CHECK(!graph_.state(state).write.valid(),
                 "state variable " + graph_.state(state).name + " is read after its write");
  if (graph_.state(state).incoming.valid()) return graph_.state(state).incoming;
  const ValueId id(graph_.values.size());
  graph_.values.push_back({.name = unique_value_name(graph_.state(state).name),
                           .type = graph_.state(state).type,
                           .kind = ValueKind::kState,
                           .state = state});
  insert(value_names_, graph_.values.back().name);
  graph_.state(state).incoming = id;
  return id;
}

NodeId GraphBuilder::write(StateId state, ValueId value) {
  const StateVariable& variable = graph_.state(state);
  PLIMSOLL_CHECK(!variable.write.valid(), "state variable " + variable.name + " is written twice");
  PLIMSOLL_CHECK(
      graph_.value(value).type == variable.type,
      fmt::format("state variable {} is written with another type: {} for {}", variable.name,
                  to_string(graph_.value(value).type.shape), to_string(variable.type.shape)));
  const NodeId id = add("state_write", variable.name + "/write", {value});
  graph_.node(id).writes = state;
  graph_.state(state).write = id;
  return id;
}

void GraphBuilder::output(ValueId value) { graph_.outputs.push_back(value); }

NodeId GraphBuilder::add(std::string_view op, std::string_view name, std::vector<ValueId> inputs,
                         Attributes attributes) {
  const NodeId id(graph_.nodes.size());
  Node node{.name = unique_node_name(name),
            .attributes = std::move(attributes),
            .inputs = std::move(inputs),
            .layer = layer_,
            .stage = stage_};
  std::vector<ValueType> operand_types;
  for (ValueId input : node.inputs) {
    PLIMSOLL_CHECK(input.valid(), "an operand of " + node.name + " is no value");
    operand_types.push_back(graph_.value(input).type);
  }
  std::vector<ValueType> result_types;
  try {
    node.op = &registry_.get(op);
    result_types = node.op->infer({node.attributes, operand_types, {}});
  } catch (const Error& error) {
    const ErrorKind kind = error.kind() == ErrorKind::kConfig ? ErrorKind::kModel : error.kind();
    throw Error(kind, place_of(layer_, node.name, op) + error.message());
  }
  for (size_t i = 0; i < result_types.size(); ++i) {
    const std::string wish = i == 0 ? node.name : fmt::format("{}:{}", node.name, i);
    node.outputs.push_back(ValueId(graph_.values.size()));
    graph_.values.push_back({.name = unique_value_name(wish),
                             .type = std::move(result_types[i]),
                             .producer = id,
                             .output = static_cast<int>(i)});
    insert(value_names_, graph_.values.back().name);
  }
  insert(node_names_, node.name);
  graph_.nodes.push_back(std::move(node));
  return id;
}

ValueId GraphBuilder::call(std::string_view op, std::string_view name, std::vector<ValueId> inputs,
                           Attributes attributes) {
  const NodeId id = add(op, name, std::move(inputs), std::move(attributes));
  PLIMSOLL_CHECK(graph_.node(id).outputs.size() == 1,
                 graph_.node(id).name + " has several outputs or none");
  return graph_.node(id).outputs[0];
}

}  // namespace plimsoll::graph
