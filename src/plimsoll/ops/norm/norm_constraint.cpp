// unit_norm and clip_norm: projections of a weight by its norms over some of its dimensions, as
// keras.constraints.UnitNorm, MaxNorm and MinMaxNorm compute them.
//
//   norm   = sqrt(Σ w²) over {axes}                    epsilon = 1e-7
//   unit   w / (epsilon + norm)
//   clip   w · (rate · clip(norm, min_value, max_value) + (1 − rate) · norm) / (epsilon + norm)

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class NormConstraint final : public NamedOp {
 public:
  NormConstraint(std::string_view name, bool clips) : NamedOp(name), clips_(clips) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 1);
    const Shape& w = node.inputs[0].shape;
    if (w.has_batch()) refuse("a weight as input 0", to_string(w), "Use it on weights only.");
    int64_t before = -1;
    for (int64_t axis : node.attributes.get_ints("axes")) {
      if (axis <= before || axis >= w.rank()) {
        refuse(fmt::format("rising dimensions of {} in \"axes\"", to_string(w)),
               std::to_string(axis), "Check the node's attributes.");
      }
      before = axis;
    }
    if (clips_) {
      read_double(node, "min_value", -kNoBound, kNoBound);
      read_double(node, "max_value", -kNoBound, kNoBound);
      read_double(node, "rate", -kNoBound, kNoBound);
    }
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return 3.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 private:
  static constexpr double kNoBound = 1e300;
  bool clips_;
};

}  // namespace

void register_norm_constraint(OpRegistry& registry) {
  add_op<NormConstraint>(registry, "clip_norm", true);
  add_op<NormConstraint>(registry, "unit_norm", false);
}

}  // namespace plimsoll::ops
