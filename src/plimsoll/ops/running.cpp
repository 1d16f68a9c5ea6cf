// running_sum: each element of an axis with all before it ({reverse}: after it) added to it.
// product_last: the product of each row of the last dimension; product_last_grad, (dy, x) → each
// element's gradient, the product of the others of its row. stop_gradient: the value itself;
// no gradient passes it.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class RunningSum final : public BatchMapOp {
 public:
  RunningSum() : BatchMapOp("running_sum") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    read_axis(node, node.inputs[0].shape.rank());
    node.attributes.get_bool("reverse", false);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true}; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    Attributes attributes = context.attributes();
    attributes.set("reverse", !attributes.get_bool("reverse", false));
    context.set_gradient(0, context.builder().call("running_sum", context.name("grad"),
                                                   {context.output_gradient(0)}, attributes));
  }
};

class ProductLast final : public BatchMapOp {
 public:
  ProductLast() : BatchMapOp("product_last") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    return {{node.inputs[0].dtype, without_last(node.inputs[0].shape)}};
  }

  OpTraits traits() const override { return {.cheap = true}; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("product_last_grad", context.name("grad"),
                                                   {context.output_gradient(0), context.input(0)}));
  }
};

class ProductLastGrad final : public BatchMapOp {
 public:
  ProductLastGrad() : BatchMapOp("product_last_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_floating(node, 1);
    expect_rank(node, 1, 2, kAnyRank);
    expect_type(node, 0, {node.inputs[1].dtype, without_last(node.inputs[1].shape)});
    return {node.inputs[1]};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

// It has no gradient, whoever asks.
class StopGradient final : public BatchMapOp {
 public:
  StopGradient() : BatchMapOp("stop_gradient") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    return {node.inputs[0]};
  }

  void gradient(GradientContext&) const override {}

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override {
    return {.view = true, .cheap = true, .bf16 = graph::kFollowsFirst};
  }
  ElementMoves element_moves(const NodeTypes&) const override {
    return {.kind = ElementMoves::Kind::kInOrder};
  }
  double flops_per_sample(const NodeTypes&) const override { return 0; }
};

}  // namespace

void register_running(OpRegistry& registry) {
  add_op<ProductLast>(registry);
  add_op<ProductLastGrad>(registry);
  add_op<RunningSum>(registry);
  add_op<StopGradient>(registry);
}

}  // namespace plimsoll::ops
