// maximum and minimum of two values, element by element; where they are equal the gradient goes to
// the left one, as TensorFlow's does.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Extremum final : public ElementwiseOp {
 public:
  using ElementwiseOp::ElementwiseOp;

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 2);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}}; }

  void gradient(GradientContext& context) const override {
    for (int i = 0; i < 2; ++i) {
      if (!context.wants(i)) continue;
      const Attributes attributes{{"of", std::string(name())}, {"ties", i == 0}};
      context.set_gradient(
          i, context.builder().call(
                 "extremum_grad", context.name(i == 0 ? "grad_left" : "grad_right"),
                 {context.output_gradient(0), context.input(i), context.input(1 - i)}, attributes));
    }
  }
};

// (dy, mine, other) {of: "maximum" or "minimum", ties: whether equal numbers are mine} → d(mine)
class ExtremumGrad final : public ElementwiseOp {
 public:
  ExtremumGrad() : ElementwiseOp("extremum_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 3);
    read_name(node, "of", "maximum", {"maximum", "minimum"});
    node.attributes.get_bool("ties");
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}, {2, 0}}; }
};

}  // namespace

void register_extremum(OpRegistry& registry) {
  add_op<ExtremumGrad>(registry);
  add_op<Extremum>(registry, "maximum");
  add_op<Extremum>(registry, "minimum");
}

}  // namespace plimsoll::ops
