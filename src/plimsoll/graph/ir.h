#pragma once

// The intermediate representation: values, nodes and state variables of one program.
//
// A graph is one training step (or evaluation, prediction, initialization) as data flow. It knows
// operators only by their interface (op.h), and nothing of memory, time or devices. Each value is
// written by one node, fed by the input source, or the incoming value of a state variable. Nodes
// stand in a valid topological order; a state variable has one incoming and at most one outgoing
// value, and the node that writes it comes after every reader of the incoming one.
//
//   input x ──▶ conv1 ──▶ relu1 ──▶ … ──▶ loss ─▶ loss_sum
//                 ▲                                       gradients follow, mirrored
//   state conv1/kernel ───────────────▶ adam ─▶ state_write
//
// Shapes are symbolic in the batch (base/shape.h); a Program (program.h) fixes the batch size.

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/id.h"
#include "base/shape.h"
#include "graph/attributes.h"

namespace plimsoll::graph {

class Op;

struct ValueTag;
struct NodeTag;
struct StateTag;
using ValueId = Id<ValueTag>;
using NodeId = Id<NodeTag>;
using StateId = Id<StateTag>;

// What an operator sees of a value.
struct ValueType {
  DType dtype = DType::kFloat32;
  Shape shape{};
  friend bool operator==(const ValueType&, const ValueType&) = default;
};

enum class ValueKind : uint8_t {
  kNode,   // output `output` of node `producer`
  kInput,  // fed by the input source; `input` is its index there
  kState,  // the incoming value of state variable `state`
};

struct Value {
  std::string name{};  // unique among the values of the graph
  ValueType type{};
  ValueKind kind = ValueKind::kNode;
  NodeId producer{};  // kNode only
  int output = 0;     // kNode only
  int input = -1;     // kInput only
  StateId state{};    // kState only
  friend bool operator==(const Value&, const Value&) = default;
};

// The part of a step that a node belongs to: for reports, and for autodiff's bookkeeping.
enum class Stage : uint8_t { kForward, kLoss, kBackward, kUpdate, kMetric };
std::string_view to_string(Stage stage);  // "forward", "loss", …

struct Node {
  std::string name{};  // unique among the nodes of the graph; stable across builds of one model
  const Op* op = nullptr;
  Attributes attributes{};
  std::vector<ValueId> inputs{};
  std::vector<ValueId> outputs{};
  StateId writes{};     // the state variable that a state_write node writes; invalid elsewhere
  std::string layer{};  // the Keras layer it came from; empty for losses, metrics, optimizer
  Stage stage = Stage::kForward;
  friend bool operator==(const Node&, const Node&) = default;
};

enum class StateRole : uint8_t {
  kWeight,           // trainable or frozen weight
  kOptimizerSlot,    // momentum, second moment, …
  kMovingStatistic,  // BatchNormalization's moving mean and variance
  kMetric,           // total and count of a metric or of the loss
  kCounter,          // iterations
  kHyperparameter,   // learning rate: written by the host between steps
};
std::string_view to_string(StateRole role);  // "weight", "slot", "moving_statistic", …

struct StateVariable {
  std::string name{};  // "conv2d/kernel", "adam/conv2d/kernel/m": one name over all programs
  ValueType type{};    // no batch dimension
  StateRole role = StateRole::kWeight;
  std::string layer{};
  bool trainable = false;
  ValueId incoming{};  // the value that readers see; invalid where a program never reads it
  NodeId write{};      // the state_write node; invalid where a program never writes it
  friend bool operator==(const StateVariable&, const StateVariable&) = default;
};

struct Graph {
  std::vector<Value> values{};
  std::vector<Node> nodes{};
  std::vector<StateVariable> states{};
  std::vector<ValueId> inputs{};   // in the input source's order
  std::vector<ValueId> outputs{};  // handed to the output sink, in its order

  const Value& value(ValueId id) const { return values[id.index()]; }
  Value& value(ValueId id) { return values[id.index()]; }
  const Node& node(NodeId id) const { return nodes[id.index()]; }
  Node& node(NodeId id) { return nodes[id.index()]; }
  const StateVariable& state(StateId id) const { return states[id.index()]; }
  StateVariable& state(StateId id) { return states[id.index()]; }
  friend bool operator==(const Graph&, const Graph&) = default;
};

// Types of a node's operands, gathered for the operator interface.
std::vector<ValueType> input_types(const Graph& graph, NodeId node);
std::vector<ValueType> output_types(const Graph& graph, NodeId node);
// Nodes that read each value, in node order, a node once per operand that names the value.
std::vector<std::vector<NodeId>> find_users(const Graph& graph);
// Invalid ids where there is none of that name.
NodeId find_node(const Graph& graph, std::string_view name);
ValueId find_value(const Graph& graph, std::string_view name);
StateId find_state(const Graph& graph, std::string_view name);

}  // namespace plimsoll::graph
