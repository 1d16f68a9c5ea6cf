// weight_average: what Keras's use_ema does after an update of a weight w with its average a, of
// t = iterations (those before this step):
//
//   (w, a, t) {momentum, overwrite_every} → w', a'
//   a' = m a + (1 − m) w;  m is 0 at t = 0 and else momentum
//   w' = a' where overwrite_every divides t + 1, else w (always where it is 0)

#include "graph/state_rows.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class WeightAverage final : public NamedOp {
 public:
  WeightAverage() : NamedOp("weight_average") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_floating(node, 0);
    expect_type(node, 1, node.inputs[0]);
    expect_type(node, 2, {DType::kInt64, Shape()});
    read_double(node, "momentum", 0.0, 1.0);
    read_int(node, "overwrite_every", 0);
    return {node.inputs[0], node.inputs[0]};
  }

  std::vector<graph::Axis> axes(const NodeTypes& node) const override {
    return graph::state_rows_axis(node, node.inputs[0]);
  }
  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 1}}; }
  OpTraits traits() const override { return {.elementwise = true}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return 3.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_weight_average(OpRegistry& registry) { add_op<WeightAverage>(registry); }

}  // namespace plimsoll::ops
