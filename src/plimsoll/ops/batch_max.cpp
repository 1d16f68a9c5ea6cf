// batch_max: the largest of all numbers of a value, a scalar; and its gradient, (dy, x, y) → dy in
// equal parts where x is y. NaN where any is. Nothing can be cut: the largest comes first.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class BatchMax final : public NamedOp {
 public:
  BatchMax() : NamedOp("batch_max") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    return {{node.inputs[0].dtype, Shape()}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call(
                                "batch_max_grad", context.name("grad"),
                                {context.output_gradient(0), context.input(0), context.output(0)}));
  }
};

class BatchMaxGrad final : public NamedOp {
 public:
  BatchMaxGrad() : NamedOp("batch_max_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_floating(node, 1);
    const ValueType number{node.inputs[1].dtype, Shape()};
    expect_type(node, 0, number);
    expect_type(node, 2, number);
    return {node.inputs[1]};
  }
};

}  // namespace

void register_batch_max(OpRegistry& registry) {
  add_op<BatchMax>(registry);
  add_op<BatchMaxGrad>(registry);
}

}  // namespace plimsoll::ops
