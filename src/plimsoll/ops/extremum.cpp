// maximum and minimum of two values, element by element; where they are equal the gradient goes to
// the left one, as TensorFlow's does. extremum_last: that of each row of the last dimension, whose
// gradient is shared by all that are equal to it.

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

// (B, …, C) {of: "maximum" or "minimum"} → (B, …)
class ExtremumLast final : public BatchMapOp {
 public:
  ExtremumLast() : BatchMapOp("extremum_last") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    read_name(node, "of", "maximum", {"maximum", "minimum"});
    return {{node.inputs[0].dtype, without_last(node.inputs[0].shape)}};
  }

  OpTraits traits() const override { return {.cheap = true}; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    graph::GraphBuilder& builder = context.builder();
    const ValueType x = context.input_type(0);
    const std::vector<int64_t> wide = sample_dims(x.shape);
    std::vector<int64_t> narrow = wide;
    narrow.back() = 1;
    const auto spread = [&](const std::string& name, ValueId value) {
      value = builder.call("reshape", context.name(name + "_column"), {value}, {{"shape", narrow}});
      return builder.call("broadcast", context.name(name), {value}, {{"shape", wide}});
    };
    const ValueId best =
        builder.call("compare", context.name("best"),
                     {context.input(0), spread("value", context.output(0))}, {{"kind", "equal"}});
    const ValueId ones = builder.call("cast", context.name("ones"), {best},
                                      {{"dtype", std::string(to_string(x.dtype))}});
    ValueId count = builder.call("sum_to", context.name("count"), {ones},
                                 {{"shape", narrow}, {"batched", true}});
    count = builder.call("broadcast", context.name("counts"), {count}, {{"shape", wide}});
    const ValueId share = builder.call("divide", context.name("share"), {ones, count});
    context.set_gradient(0, builder.call("multiply", context.name("grad"),
                                         {spread("dy", context.output_gradient(0)), share}));
  }
};

}  // namespace

void register_extremum(OpRegistry& registry) {
  add_op<ExtremumGrad>(registry);
  add_op<ExtremumLast>(registry);
  add_op<Extremum>(registry, "maximum");
  add_op<Extremum>(registry, "minimum");
}

}  // namespace plimsoll::ops
