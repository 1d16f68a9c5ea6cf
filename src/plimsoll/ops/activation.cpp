// activation and activation_grad: Keras's elementwise activations.

#include "ops/activation_kinds.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// Those of comparisons and sums alone take the time of their traffic.
double flops_per_element(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kLinear:
    case ActivationKind::kRelu:
      return 1.0;
    case ActivationKind::kRelu6:
    case ActivationKind::kLeakyRelu:
    case ActivationKind::kHardTanh:
    case ActivationKind::kThreshold:
    case ActivationKind::kGeneralRelu:
    case ActivationKind::kHardSigmoid:
    case ActivationKind::kHardSilu:
    case ActivationKind::kHardShrink:
    case ActivationKind::kSoftShrink:
      return 1.0;
    default:
      return 16.0;
  }
}

class ActivationOp final : public ElementwiseOp {
 public:
  ActivationOp() : ElementwiseOp("activation") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    read_activation(node.attributes);
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const ValueId dy = context.output_gradient(0);
    const Activation activation = read_activation(context.attributes());
    if (activation.kind == ActivationKind::kLinear) {
      context.set_gradient(0, dy);
      return;
    }
    const bool from_output = slope_needs_output(activation);
    Attributes attributes = context.attributes();
    attributes.set("reference", from_output ? "y" : "x");
    const ValueId reference = from_output ? context.output(0) : context.input(0);
    context.set_gradient(0, context.builder().call("activation_grad", context.name("grad"),
                                                   {dy, reference}, std::move(attributes)));
  }

  OpTraits traits() const override {
    return {.elementwise = true, .cheap = true, .bf16 = graph::kFollowsFirst};
  }
  double flops_per_sample(const NodeTypes& node) const override {
    return flops_per_element(read_activation(node.attributes).kind) *
           static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class ActivationGrad final : public ElementwiseOp {
 public:
  ActivationGrad() : ElementwiseOp("activation_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 2);
    const Activation activation = read_activation(node.attributes);
    const std::string reference = read_name(node, "reference", "", {"x", "y"});
    if (activation.kind != ActivationKind::kLinear &&
        (reference == "y") != slope_needs_output(activation)) {
      refuse(slope_needs_output(activation) ? "reference=\"y\"" : "reference=\"x\"",
             "\"" + reference + "\"", "Check the node's attributes.");
    }
    return {node.inputs[0]};
  }

  // relu' needs the sign alone.
  std::vector<std::string> saved_forms(const NodeTypes& node, int input) const override {
    if (input != 1 || read_activation(node.attributes).kind != ActivationKind::kRelu) return {};
    return {"positive_bits"};
  }
};

}  // namespace

void register_activation(OpRegistry& registry) {
  add_op<ActivationOp>(registry);
  add_op<ActivationGrad>(registry);
}

}  // namespace plimsoll::ops
