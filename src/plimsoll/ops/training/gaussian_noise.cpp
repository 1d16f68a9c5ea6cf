// gaussian_noise: x plus normal numbers of mean 0. gaussian_scale: x times normal numbers of
// mean 1.
//
// A draw is a function of (seed, step, site, position in the global batch), as dropout's is
// (dropout_mask.h), of another stream. The gradient of gaussian_scale draws again.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Gaussian final : public ElementwiseOp {
 public:
  explicit Gaussian(std::string_view name) : ElementwiseOp(name) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 1);
    read_double(node, "stddev", 0.0, 1e30);
    node.attributes.get_int("site");
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const ValueId dy = context.output_gradient(0);
    context.set_gradient(
        0, name() == "gaussian_noise"
               ? dy
               : context.builder().call("gaussian_scale_grad", context.name("grad"), {dy},
                                        context.attributes()));
  }

  OpTraits traits() const override { return {.elementwise = true, .random = true, .cheap = true}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return 30.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_gaussian_noise(OpRegistry& registry) {
  add_op<Gaussian>(registry, "gaussian_noise");
  add_op<Gaussian>(registry, "gaussian_scale");
  add_op<Gaussian>(registry, "gaussian_scale_grad");
}

}  // namespace plimsoll::ops
