// spatial_dropout: whole channels of a sample become zero, the others are scaled up. What lies
// between batch and channels shares one draw (dropout_mask.h, over (batch, channels)).

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class SpatialDropout final : public BatchMapOp {
 public:
  explicit SpatialDropout(std::string_view name) : BatchMapOp(name) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 2, kAnyRank);
    const double rate = read_double(node, "rate", 0.0, 1.0);
    if (rate == 1.0) refuse("a rate below 1", "1", "Choose a smaller rate.");
    node.attributes.get_int("site");
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override {
    return {.random = true, .cheap = true, .bf16 = graph::kFollowsFirst};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("spatial_dropout_grad", context.name("grad"),
                                  {context.output_gradient(0)}, context.attributes()));
  }
};

}  // namespace

void register_spatial_dropout(OpRegistry& registry) {
  add_op<SpatialDropout>(registry, "spatial_dropout");
  add_op<SpatialDropout>(registry, "spatial_dropout_grad");
}

}  // namespace plimsoll::ops
