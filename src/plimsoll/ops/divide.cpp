// divide: a / b of one type. divide_no_nan: the same, but 0 where b is 0 (Keras's divide_no_nan).

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Divide final : public ElementwiseOp {
 public:
  using ElementwiseOp::ElementwiseOp;

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 2);
    return {node.inputs[0]};
  }

  // d a = dy / b;  d b = −dy · y / b, which is 0 where divide_no_nan gave 0.
  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    if (!context.wants(0) && !context.wants(1)) return;
    const ValueId da = builder.call(name(), context.name("grad_left"),
                                    {context.output_gradient(0), context.input(1)});
    if (context.wants(0)) context.set_gradient(0, da);
    if (!context.wants(1)) return;
    const ValueId product =
        builder.call("multiply", context.name("grad_right"), {da, context.output(0)});
    context.set_gradient(1, builder.call("scale_shift", context.name("negate"), {product},
                                         {{"scale", -1.0}, {"offset", 0.0}}));
  }
};

}  // namespace

void register_divide(OpRegistry& registry) {
  add_op<Divide>(registry, "divide");
  add_op<Divide>(registry, "divide_no_nan");
}

}  // namespace plimsoll::ops
