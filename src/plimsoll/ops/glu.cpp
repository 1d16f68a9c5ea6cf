// glu: x is split in two along an axis; the first half is gated by the sigmoid of the second.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Glu final : public BatchMapOp {
 public:
  Glu() : BatchMapOp("glu") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 1);
    expect_rank(node, 0, 2, kAnyRank);
    ValueType y = node.inputs[0];
    Dim& dim = y.shape[read_axis(node, y.shape.rank())];
    if (dim.count % 2 != 0) {
      refuse("an even extent along the axis", to_string(y.shape), "Choose another axis.");
    }
    dim.count /= 2;
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("glu_grad", context.name("grad"),
                                                   {context.output_gradient(0), context.input(0)},
                                                   context.attributes()));
  }
};

// (dy, x) → dx
class GluGrad final : public BatchMapOp {
 public:
  GluGrad() : BatchMapOp("glu_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_floating(node, 1);
    expect_rank(node, 1, 2, kAnyRank);
    ValueType dy = node.inputs[1];
    dy.shape[read_axis(node, dy.shape.rank())].count /= 2;
    expect_type(node, 0, dy);
    return {node.inputs[1]};
  }
};

}  // namespace

void register_glu(OpRegistry& registry) {
  add_op<Glu>(registry);
  add_op<GluGrad>(registry);
}

}  // namespace plimsoll::ops
