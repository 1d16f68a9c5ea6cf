// unary: one number from each number, of those that keras.ops has and that are no activations; and
// unary_grad, (dy, x) → dy f'(x), by the same attributes.
//
// {kind}: abs, ceil, cos, expm1, floor, log, log1p, power {exponent}, reciprocal, round, rsqrt,
// sign, sin, sqrt. Where f' is not defined it is what TensorFlow's gradients give: |x|' is 0 at 0.

#include "ops/unary.h"

#include <array>

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

struct Row {
  std::string_view name;
  UnaryKind kind;
};

constexpr std::array kRows = {
    Row{"abs", UnaryKind::kAbs},     Row{"ceil", UnaryKind::kCeil},
    Row{"cos", UnaryKind::kCos},     Row{"expm1", UnaryKind::kExpm1},
    Row{"floor", UnaryKind::kFloor}, Row{"log", UnaryKind::kLog},
    Row{"log1p", UnaryKind::kLog1p}, Row{"power", UnaryKind::kPower},
    Row{"round", UnaryKind::kRound}, Row{"reciprocal", UnaryKind::kReciprocal},
    Row{"rsqrt", UnaryKind::kRsqrt}, Row{"sign", UnaryKind::kSign},
    Row{"sin", UnaryKind::kSin},     Row{"sqrt", UnaryKind::kSqrt},
};

constexpr double kFlopsPerElement = 16.0;

class Unary final : public ElementwiseOp {
 public:
  Unary() : ElementwiseOp("unary") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 1);
    read_unary(node.attributes);
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("unary_grad", context.name("grad"),
                                                   {context.output_gradient(0), context.input(0)},
                                                   context.attributes()));
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return kFlopsPerElement * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class UnaryGrad final : public ElementwiseOp {
 public:
  UnaryGrad() : ElementwiseOp("unary_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 2);
    read_unary(node.attributes);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return kFlopsPerElement * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

UnaryFunction read_unary(const graph::Attributes& attributes) {
  UnaryFunction function;
  const std::string name = attributes.get_string("kind");
  const Row* found = nullptr;
  for (const Row& row : kRows) {
    if (row.name == name) found = &row;
  }
  if (found == nullptr) {
    refuse("the name of a function of one number as \"kind\"", name,
           "Check the node's attributes.");
  }
  function.kind = found->kind;
  if (function.kind == UnaryKind::kPower) function.exponent = attributes.get_double("exponent");
  return function;
}

void register_unary(OpRegistry& registry) {
  add_op<Unary>(registry);
  add_op<UnaryGrad>(registry);
}

}  // namespace plimsoll::ops
