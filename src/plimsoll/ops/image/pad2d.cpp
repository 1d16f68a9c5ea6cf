// zero_pad2d and crop2d: zeros around an image, and their removal; each is the other's gradient.
//
// {padding} and {cropping} are top, bottom, left, right.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Pad2d final : public BatchMapOp {
 public:
  // `sign` +1: zero_pad2d, −1: crop2d.
  Pad2d(std::string_view name, std::string_view key, std::string_view grad,
        std::string_view grad_key, int sign)
      : BatchMapOp(name), key_(key), grad_(grad), grad_key_(grad_key), sign_(sign) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_rank(node, 0, 4, 4);
    ValueType y = node.inputs[0];
    const std::vector<int64_t> borders = read_ints(node, key_, 4, 0);
    y.shape[1].count += sign_ * (borders[0] + borders[1]);
    y.shape[2].count += sign_ * (borders[2] + borders[3]);
    if (y.shape[1].count < 1 || y.shape[2].count < 1) {
      refuse(fmt::format("something left of {}", to_string(node.inputs[0].shape)),
             to_string(y.shape), "Crop less.");
    }
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call(
               grad_, context.name("grad"), {context.output_gradient(0)},
               {{std::string(grad_key_), context.attributes().get_ints(std::string(key_))}}));
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }
  ElementMoves element_moves(const NodeTypes& node) const override {
    if (sign_ > 0) return {};  // zeros are nobody's elements
    ElementMoves moves = moves_in_place(node);
    const std::vector<int64_t>& cropping = node.attributes.get_ints(std::string(key_));
    moves.dims[0].begin = cropping[0];
    moves.dims[1].begin = cropping[2];
    return moves;
  }

 private:
  std::string_view key_;
  std::string_view grad_;
  std::string_view grad_key_;
  int sign_;
};

}  // namespace

void register_pad2d(OpRegistry& registry) {
  add_op<Pad2d>(registry, "zero_pad2d", "padding", "crop2d", "cropping", 1);
  add_op<Pad2d>(registry, "crop2d", "cropping", "zero_pad2d", "padding", -1);
}

}  // namespace plimsoll::ops
