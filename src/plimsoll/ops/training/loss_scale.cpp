// What Keras's LossScaleOptimizer does with a step whose gradients are not all finite, of one
// number that is finite where they are (the sum of their squares):
//
//   if_finite        (new, old, number) → new where the number is finite, else old
//   next_loss_scale  (steps, scale, number) → the same after this step: steps counts those since
//                    the scale changed. A step that is not finite halves the scale; growth_steps
//                    finite ones double it, up to 2^24. Either begins to count anew.

#include "graph/state_rows.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class IfFinite final : public NamedOp {
 public:
  IfFinite() : NamedOp("if_finite") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    if (node.inputs[0].dtype != DType::kInt64) expect_floating(node, 0);
    expect_type(node, 1, node.inputs[0]);
    expect_floating(node, 2);
    expect_rank(node, 2, 0, 0);
    return {node.inputs[0]};
  }

  std::vector<graph::Axis> axes(const NodeTypes& node) const override {
    return graph::state_rows_axis(node, node.inputs[0]);
  }
  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}}; }
  OpTraits traits() const override { return {.elementwise = true, .cheap = true}; }
};

class NextLossScale final : public NamedOp {
 public:
  NextLossScale() : NamedOp("next_loss_scale") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_type(node, 0, {DType::kInt64, Shape()});
    for (size_t i = 1; i < 3; ++i) {
      expect_floating(node, i);
      expect_rank(node, i, 0, 0);
    }
    read_int(node, "growth_steps", 1);
    return {node.inputs[0], node.inputs[1]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 1}}; }
  OpTraits traits() const override { return {.cheap = true}; }
};

}  // namespace

void register_loss_scale(OpRegistry& registry) {
  add_op<IfFinite>(registry);
  add_op<NextLossScale>(registry);
}

}  // namespace plimsoll::ops
