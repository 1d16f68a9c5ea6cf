// dropout: some elements become zero, the others are scaled up (dropout_mask.h says which).
//
// `site` is a number that stands for the call site's stable name.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Dropout final : public ElementwiseOp {
 public:
  explicit Dropout(std::string_view name) : ElementwiseOp(name) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    const double rate = read_double(node, "rate", 0.0, 1.0);
    if (rate == 1.0) refuse("a rate below 1", "1", "Choose a smaller rate.");
    node.attributes.get_int("site");
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("dropout_grad", context.name("grad"),
                                  {context.output_gradient(0)}, context.attributes()));
  }

  OpTraits traits() const override {
    return {.elementwise = true, .random = true, .cheap = true, .bf16 = graph::kFollowsFirst};
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 12.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_dropout(OpRegistry& registry) {
  add_op<Dropout>(registry, "dropout");
  add_op<Dropout>(registry, "dropout_grad");
}

}  // namespace plimsoll::ops
