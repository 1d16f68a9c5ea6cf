// l2_normalize: each sample's vectors along {axis} at length one, as keras.ops.normalize computes
// them; and the gradient.
//
//   inverse   r = min(1 / sqrt(Σ x²), 1 / {epsilon})
//   forward   y = x · r
//   gradient  dx = r (dy − y Σ dy y), and r · dy where epsilon bounds r

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

void expect_normalized(const NodeTypes& node, size_t operands) {
  expect_alike(node, operands);
  expect_rank(node, 0, 2, kAnyRank);
  read_axis(node, node.inputs[0].shape.rank());
  if (read_double(node, "epsilon", 0.0, 1.0) == 0.0) {
    refuse("an epsilon above 0", "0", "Give it a small number, such as 1e-7.");
  }
}

class L2Normalize final : public BatchMapOp {
 public:
  L2Normalize() : BatchMapOp("l2_normalize") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_normalized(node, 1);
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("l2_normalize_grad", context.name("grad"),
                                                   {context.output_gradient(0), context.input(0)},
                                                   context.attributes()));
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 3.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

// (dy, x) → dx
class L2NormalizeGrad final : public BatchMapOp {
 public:
  L2NormalizeGrad() : BatchMapOp("l2_normalize_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_normalized(node, 2);
    return {node.inputs[0]};
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 6.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_l2_normalize(OpRegistry& registry) {
  add_op<L2Normalize>(registry);
  add_op<L2NormalizeGrad>(registry);
}

}  // namespace plimsoll::ops
