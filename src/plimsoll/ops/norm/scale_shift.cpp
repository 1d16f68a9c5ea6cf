// scale_shift: x * scale + offset with numbers fixed in the graph (Rescaling, label smoothing).

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class ScaleShift final : public ElementwiseOp {
 public:
  ScaleShift() : ElementwiseOp("scale_shift") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    node.attributes.get_double("scale");
    node.attributes.get_double("offset");
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call(
               "scale_shift", context.name("grad"), {context.output_gradient(0)},
               {{"scale", context.attributes().get_double("scale")}, {"offset", 0.0}}));
  }

  OpTraits traits() const override {
    return {.elementwise = true, .cheap = true, .bf16 = graph::kFollowsFirst};
  }
};

}  // namespace

void register_scale_shift(OpRegistry& registry) { add_op<ScaleShift>(registry); }

}  // namespace plimsoll::ops
