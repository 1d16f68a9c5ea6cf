// binary: one number from two, of those that keras.ops has beyond arithmetic; and binary_grad, (dy,
// a, b) {kind, right} → dy · ∂f/∂a, or ∂f/∂b where `right`.
//
// {kind}: arctan2, floor_divide, floor_mod, fmod, hypot, logaddexp, logaddexp2, power.

#include "ops/binary.h"

#include <array>

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

struct Row {
  std::string_view name;
  BinaryKind kind;
};

constexpr std::array kRows = {
    Row{"arctan2", BinaryKind::kArctan2},       Row{"floor_divide", BinaryKind::kFloorDivide},
    Row{"floor_mod", BinaryKind::kFloorMod},    Row{"fmod", BinaryKind::kFmod},
    Row{"hypot", BinaryKind::kHypot},           Row{"logaddexp", BinaryKind::kLogAddExp},
    Row{"logaddexp2", BinaryKind::kLogAddExp2}, Row{"power", BinaryKind::kPower},
};

constexpr double kFlopsPerElement = 24.0;

class Binary final : public ElementwiseOp {
 public:
  Binary() : ElementwiseOp("binary") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 2);
    read_binary(node.attributes);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}}; }

  void gradient(GradientContext& context) const override {
    for (int i = 0; i < 2; ++i) {
      if (!context.wants(i)) continue;
      Attributes attributes = context.attributes();
      attributes.set("right", i == 1);
      context.set_gradient(
          i, context.builder().call(
                 "binary_grad", context.name(i == 0 ? "grad_left" : "grad_right"),
                 {context.output_gradient(0), context.input(0), context.input(1)}, attributes));
    }
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return kFlopsPerElement * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class BinaryGrad final : public ElementwiseOp {
 public:
  BinaryGrad() : ElementwiseOp("binary_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 3);
    read_binary(node.attributes);
    node.attributes.get_bool("right");
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}, {2, 0}}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return kFlopsPerElement * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

BinaryKind read_binary(const graph::Attributes& attributes) {
  const std::string& name = attributes.get_string("kind");
  for (const Row& row : kRows) {
    if (row.name == name) return row.kind;
  }
  refuse("the name of a function of two numbers as \"kind\"", name, "Check the node's attributes.");
}

void register_binary(OpRegistry& registry) {
  add_op<Binary>(registry);
  add_op<BinaryGrad>(registry);
}

}  // namespace plimsoll::ops
