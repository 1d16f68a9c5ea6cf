// fold_batch: (B, T, …) as (T·B, …), every step a row of its own; unfold_batch {steps}: back. The
// same bytes under another shape.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class FoldBatch final : public BatchMapOp {
 public:
  FoldBatch() : BatchMapOp("fold_batch") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_rank(node, 0, 2, kAnyRank);
    const Shape& x = node.inputs[0].shape;
    if (!x.has_batch()) refuse("a batch in front", to_string(x), "Reshape the value.");
    std::vector<Dim> dims(x.dims().begin() + 1, x.dims().end());
    dims[0] = Dim::batch(x[0].count * x[1].count);
    return {{node.inputs[0].dtype, Shape(std::move(dims))}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call(
                                "unfold_batch", context.name("grad"), {context.output_gradient(0)},
                                {{"steps", context.input_type(0).shape[1].count}}));
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override {
    return {.view = true, .cheap = true, .bf16 = graph::kFollowsFirst};
  }
  ElementMoves element_moves(const NodeTypes&) const override {
    return {.kind = ElementMoves::Kind::kInOrder};
  }
  double flops_per_sample(const NodeTypes&) const override { return 0; }
};

class UnfoldBatch final : public BatchMapOp {
 public:
  UnfoldBatch() : BatchMapOp("unfold_batch") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_rank(node, 0, 1, kAnyRank);
    const Shape& x = node.inputs[0].shape;
    const int64_t steps = read_int(node, "steps", 1);
    if (!x.has_batch() || x[0].count % steps != 0) {
      refuse(fmt::format("rows of {} steps a sample", steps), to_string(x),
             "Check the node's attributes.");
    }
    std::vector<Dim> dims(x.dims().begin(), x.dims().end());
    dims[0] = Dim::batch(x[0].count / steps);
    dims.insert(dims.begin() + 1, Dim::constant(steps));
    return {{node.inputs[0].dtype, Shape(std::move(dims))}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("fold_batch", context.name("grad"),
                                                   {context.output_gradient(0)}));
  }

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

void register_fold_batch(OpRegistry& registry) {
  add_op<FoldBatch>(registry);
  add_op<UnfoldBatch>(registry);
}

}  // namespace plimsoll::ops
