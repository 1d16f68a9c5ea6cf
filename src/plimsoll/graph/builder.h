#pragma once

// Builds graphs node by node, checking each node's types as it comes.
//
// The builder makes names unique ("relu", "relu_1"), runs the operator's shape rule, and stamps
// nodes with the current layer and stage. It never reorders: nodes stand in the order of the calls.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir.h"
#include "graph/op.h"

namespace plimsoll::graph {

class GraphBuilder {
 public:
  explicit GraphBuilder(const OpRegistry& registry) : registry_(registry) {}
  // Goes on with an existing graph.
  GraphBuilder(const OpRegistry& registry, Graph graph);

  const OpRegistry& registry() const { return registry_; }
  const Graph& graph() const { return graph_; }
  Graph& mutable_graph() { return graph_; }
  // Ends building; the builder is empty afterwards.
  Graph finish();

  void set_layer(std::string layer) { layer_ = std::move(layer); }
  void set_stage(Stage stage) { stage_ = stage; }
  const std::string& layer() const { return layer_; }
  Stage stage() const { return stage_; }

  ValueId input(std::string name, ValueType type);
  // Declares the variable (once per name) and returns it; its incoming value is made by read().
  StateId state(StateVariable variable);
  ValueId read(StateId state);
  // Appends a state_write node. A state is written once.
  NodeId write(StateId state, ValueId value);
  void output(ValueId value);

  // Appends a node; `name` is a wish. Throws kModel naming layer and node.
  NodeId add(std::string_view op, std::string_view name, std::vector<ValueId> inputs,
             Attributes attributes = {});
  // The same, returning the single output of the node.
  ValueId call(std::string_view op, std::string_view name, std::vector<ValueId> inputs,
               Attributes attributes = {});

  // A copy: the value's place moves as the graph grows.
  ValueType type(ValueId value) const { return graph_.value(value).type; }
  std::string unique_node_name(std::string_view wish) const;

 private:
  std::string unique_value_name(std::string_view wish) const;

  const OpRegistry& registry_;
  Graph graph_;
  std::string layer_;
  Stage stage_ = Stage::kForward;
  std::vector<std::string> value_names_;  // sorted
  std::vector<std::string> node_names_;   // sorted
};

}  // namespace plimsoll::graph
