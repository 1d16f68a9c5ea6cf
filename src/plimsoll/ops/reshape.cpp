// reshape: the same elements of each sample under another shape; no computation.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Reshape final : public BatchMapOp {
 public:
  Reshape() : BatchMapOp("reshape") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    const ValueType& x = node.inputs[0];
    std::vector<Dim> dims;
    if (x.shape.has_batch()) dims.push_back(x.shape[0]);
    for (int64_t dim : read_dims(node, "shape")) dims.push_back(Dim::constant(dim));
    const Shape y(std::move(dims));
    if (y.elements_per_sample() != x.shape.elements_per_sample()) {
      refuse(fmt::format("a shape of {} elements per sample, as in {}",
                         x.shape.elements_per_sample(), to_string(x.shape)),
             to_string(y), "Check the target shape.");
    }
    return {{x.dtype, y}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("reshape", context.name("grad"), {context.output_gradient(0)},
                                  {{"shape", sample_dims(context.input_type(0).shape)}}));
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

void register_reshape(OpRegistry& registry) { add_op<Reshape>(registry); }

}  // namespace plimsoll::ops
