// sum_squares and sum_abs: factor · Σ w² and factor · Σ |w| of a weight, and their gradients
// (w, d) → 2 factor d w and factor d sign(w).

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Regularizer final : public NamedOp {
 public:
  Regularizer(std::string_view name, std::string_view grad) : NamedOp(name), grad_(grad) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 1);
    node.attributes.get_double("factor");
    return {{node.inputs[0].dtype, Shape()}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call(grad_, context.name("grad"),
                                                   {context.input(0), context.output_gradient(0)},
                                                   context.attributes()));
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 2.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 private:
  std::string_view grad_;
};

class RegularizerGrad final : public NamedOp {
 public:
  using NamedOp::NamedOp;

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_floating(node, 0);
    expect_type(node, 1, {node.inputs[0].dtype, Shape()});
    node.attributes.get_double("factor");
    return {node.inputs[0]};
  }

  OpTraits traits() const override { return {.elementwise = true, .cheap = true}; }
};

}  // namespace

void register_regularizer(OpRegistry& registry) {
  add_op<Regularizer>(registry, "sum_squares", "sum_squares_grad");
  add_op<Regularizer>(registry, "sum_abs", "sum_abs_grad");
  add_op<RegularizerGrad>(registry, "sum_squares_grad");
  add_op<RegularizerGrad>(registry, "sum_abs_grad");
}

}  // namespace plimsoll::ops
