#pragma once

// Reverse-mode differentiation against the operator interface alone.
//
// Gradients are nodes like any other. Several contributions to one gradient are summed by a chain
// of binary `accumulate` nodes, in the order in which backward visits the uses (last node first, a
// node's operands from left to right); that order is part of the program's arithmetic and is never
// changed afterwards. Values that no wanted gradient depends on get none, so frozen layers keep
// nothing.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/ir.h"

namespace plimsoll::graph {

// What a gradient rule sees and does. Valid during the rule only. It holds copies of the node and
// its types, so references stay good while the rule adds nodes.
class GradientContext {
 public:
  GradientContext(GraphBuilder& builder, NodeId node, std::span<const ValueId> output_gradients,
                  std::vector<bool> wanted);

  GraphBuilder& builder() { return builder_; }
  NodeId node() const { return node_id_; }
  const Attributes& attributes() const { return node_.attributes; }
  ValueId input(int i) const { return node_.inputs[static_cast<size_t>(i)]; }
  ValueId output(int i) const { return node_.outputs[static_cast<size_t>(i)]; }
  const ValueType& input_type(int i) const { return input_types_[static_cast<size_t>(i)]; }
  const ValueType& output_type(int i) const { return output_types_[static_cast<size_t>(i)]; }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  // Invalid where nothing depends on that output.
  ValueId output_gradient(int i) const { return output_gradients_[static_cast<size_t>(i)]; }
  // Whether anybody asks for this input's gradient; a rule adds nodes only for those.
  bool wants(int i) const { return wanted_[static_cast<size_t>(i)]; }
  // Its type must be the input's; of a bfloat16 input it may be float32 (a weight's: what sums over
  // the batch is never rounded). A gradient that nobody wants is our bug.
  void set_gradient(int input, ValueId gradient);
  ValueId gradient(int input) const { return input_gradients_[static_cast<size_t>(input)]; }
  // A name for a node of this rule: "<node>/<suffix>".
  std::string name(std::string_view suffix) const;

 private:
  GraphBuilder& builder_;
  NodeId node_id_;
  Node node_;
  std::vector<ValueType> input_types_;
  std::vector<ValueType> output_types_;
  std::vector<ValueId> output_gradients_;
  std::vector<bool> wanted_;
  std::vector<ValueId> input_gradients_;
};

// Appends the nodes that compute d(loss)/d(target) for each target, in stage kBackward; `loss` is a
// scalar. A target that the loss does not depend on gets an invalid id. Throws kModel where an
// operator on the way has no gradient, naming layer and node.
std::vector<ValueId> add_gradients(GraphBuilder& builder, ValueId loss,
                                   std::span<const ValueId> targets);

}  // namespace plimsoll::graph
