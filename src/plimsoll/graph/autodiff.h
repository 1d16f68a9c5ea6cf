#pragma once

// Reverse-mode differentiation against the operator interface alone.
//
// Gradients are nodes like any other. Several contributions to one gradient are summed by a chain
// of binary `accumulate` nodes, in the order in which backward visits the uses (last use first);
// that order is part of the program's arithmetic and is never changed afterwards. Values that no
// wanted gradient depends on get none, so frozen layers keep nothing.

#include <span>
#include <vector>

#include "graph/builder.h"
#include "graph/ir.h"

namespace plimsoll::graph {

// What a gradient rule sees and does. Valid during the rule only.
class GradientContext {
 public:
  GradientContext(GraphBuilder& builder, NodeId node, std::span<const ValueId> output_gradients,
                  std::vector<bool> wanted);

  GraphBuilder& builder() { return builder_; }
  NodeId node() const { return node_; }
  const Attributes& attributes() const;
  ValueId input(int i) const;
  ValueId output(int i) const;
  const ValueType& input_type(int i) const;
  const ValueType& output_type(int i) const;
  int input_count() const;
  // Invalid where nothing depends on that output.
  ValueId output_gradient(int i) const { return output_gradients_[static_cast<size_t>(i)]; }
  // Whether anybody asks for this input's gradient; a rule adds nodes only for those.
  bool wants(int i) const { return wanted_[static_cast<size_t>(i)]; }
  void set_gradient(int input, ValueId gradient);
  ValueId gradient(int input) const { return input_gradients_[static_cast<size_t>(input)]; }
  // A name for a node of this rule: "<node>/<suffix>".
  std::string name(std::string_view suffix) const;

 private:
  GraphBuilder& builder_;
  NodeId node_;
  std::span<const ValueId> output_gradients_;
  std::vector<bool> wanted_;
  std::vector<ValueId> input_gradients_;
};

// Appends the nodes that compute d(loss)/d(target) for each target, in stage kBackward; `loss` is a
// scalar. A target that the loss does not depend on gets an invalid id. Throws kModel where an
// operator on the way has no gradient, naming layer and node.
std::vector<ValueId> add_gradients(GraphBuilder& builder, ValueId loss,
                                   std::span<const ValueId> targets);

}  // namespace plimsoll::graph
