// add, subtract, multiply: element by element; the right operand is of the same type, or a scalar.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Arithmetic : public ElementwiseOp {
 public:
  using ElementwiseOp::ElementwiseOp;

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_real(node, 0);
    if (node.inputs[1].shape.rank() == 0) {
      expect_type(node, 1, {node.inputs[0].dtype, Shape()});
    } else {
      expect_type(node, 1, node.inputs[0]);
    }
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes& node) const override {
    if (node.inputs[0] == node.inputs[1]) return {{0, 0}, {1, 0}};
    return {{0, 0}};
  }

 protected:
  // `gradient` as the gradient of the right operand, summed where that is a scalar.
  static void set_right(GradientContext& context, ValueId gradient) {
    if (context.input_type(1) != context.input_type(0)) {
      gradient = context.builder().call("batch_sum", context.name("sum"), {gradient});
    }
    context.set_gradient(1, gradient);
  }
};

class Add final : public Arithmetic {
 public:
  Add() : Arithmetic("add") {}

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.output_gradient(0);
    if (context.wants(0)) context.set_gradient(0, dy);
    if (context.wants(1)) set_right(context, dy);
  }

  OpTraits traits() const override {
    return {.elementwise = true, .cheap = true, .bf16 = graph::kFollowsAll};
  }
};

class Subtract final : public Arithmetic {
 public:
  Subtract() : Arithmetic("subtract") {}

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.output_gradient(0);
    if (context.wants(0)) context.set_gradient(0, dy);
    if (!context.wants(1)) return;
    set_right(context, context.builder().call("scale_shift", context.name("negate"), {dy},
                                              {{"scale", -1.0}, {"offset", 0.0}}));
  }

  OpTraits traits() const override {
    return {.elementwise = true, .cheap = true, .bf16 = graph::kFollowsAll};
  }
};

class Multiply final : public Arithmetic {
 public:
  Multiply() : Arithmetic("multiply") {}

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const ValueId dy = context.output_gradient(0);
    if (context.wants(0)) {
      context.set_gradient(
          0, builder.call("multiply", context.name("grad_left"), {dy, context.input(1)}));
    }
    if (!context.wants(1)) return;
    set_right(context,
              builder.call("multiply", context.name("grad_right"), {dy, context.input(0)}));
  }

  OpTraits traits() const override {
    return {.elementwise = true, .cheap = true, .bf16 = graph::kFollowsAll};
  }
};

}  // namespace

void register_arithmetic(OpRegistry& registry) {
  add_op<Add>(registry);
  add_op<Subtract>(registry);
  add_op<Multiply>(registry);
}

}  // namespace plimsoll::ops
