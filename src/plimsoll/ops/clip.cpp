// clip_gradient: a gradient within bounds, as Keras's optimizers clip it, in the element type.
//
//   kind "value"    (g)            each element between −limit and limit
//   kind "norm"     (g, Σ g²)      g · limit / max(norm of g, limit)
//   kind "global"   (g, Σ Σ g²)    g · limit · min(1 / norm of all, 1 / limit)
//
// A norm that is not finite makes "global" NaN, as in Keras.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class ClipGradient final : public ElementwiseOp {
 public:
  ClipGradient() : ElementwiseOp("clip_gradient") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const std::string kind = read_name(node, "kind", "", {"value", "norm", "global"});
    const size_t count = kind == "value" ? 1 : 2;
    expect_operands(node, count, count);
    expect_floating(node, 0);
    if (count == 2) expect_type(node, 1, {node.inputs[0].dtype, Shape()});
    read_double(node, "limit", 0.0, 1e30);
    return {node.inputs[0]};
  }
};

}  // namespace

void register_clip(OpRegistry& registry) { add_op<ClipGradient>(registry); }

}  // namespace plimsoll::ops
