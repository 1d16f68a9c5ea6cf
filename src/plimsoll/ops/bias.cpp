// bias_add: one number per channel (last dimension) is added; its gradient sums all the rest.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class BiasAdd final : public ElementwiseOp {
 public:
  BiasAdd() : ElementwiseOp("bias_add") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_real(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    const ValueType& x = node.inputs[0];
    expect_type(node, 1, {wide_dtype(x.dtype), Shape{x.shape[x.shape.rank() - 1]}});
    return {x};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.output_gradient(0);
    if (context.wants(1)) {
      context.set_gradient(1, context.builder().call("bias_grad", context.name("bias_grad"), {dy}));
    }
    if (context.wants(0)) context.set_gradient(0, dy);
  }

  OpTraits traits() const override {
    return {.elementwise = true, .cheap = true, .bf16 = graph::kFollowsFirst};
  }
};

class BiasGrad final : public ImageReduceOp {
 public:
  BiasGrad() : ImageReduceOp("bias_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_real(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    const ValueType& dy = node.inputs[0];
    return {{wide_dtype(dy.dtype), Shape{dy.shape[dy.shape.rank() - 1]}}};
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_bias(OpRegistry& registry) {
  add_op<BiasAdd>(registry);
  add_op<BiasGrad>(registry);
}

}  // namespace plimsoll::ops
