// upsample2d: an image, {size} (rows, columns) times as large.
//
// {interpolation} "nearest" repeats rows and columns; "bilinear" is TensorFlow's resize with pixel
// centers at halves: position (i + ½) / size − ½ of the input, clamped to it. upsample2d_grad sums
// each output's gradient into what it was made of.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

std::vector<int64_t> read_size(const NodeTypes& node) {
  read_name(node, "interpolation", "nearest", {"nearest", "bilinear"});
  return read_ints(node, "size", 2, 1);
}

class Upsample2d final : public BatchMapOp {
 public:
  Upsample2d() : BatchMapOp("upsample2d") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    const std::vector<int64_t> size = read_size(node);
    ValueType y = node.inputs[0];
    for (int d = 0; d < 2; ++d) {
      int64_t& extent = y.shape[1 + d].count;
      if (__builtin_mul_overflow(extent, size[static_cast<size_t>(d)], &extent)) {
        refuse("an image that can be addressed", to_string(node.inputs[0].shape), "Use less size.");
      }
    }
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("upsample2d_grad", context.name("grad"),
                                  {context.output_gradient(0)}, context.attributes()));
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }
};

class Upsample2dGrad final : public BatchMapOp {
 public:
  Upsample2dGrad() : BatchMapOp("upsample2d_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    const std::vector<int64_t> size = read_size(node);
    ValueType dx = node.inputs[0];
    for (int d = 0; d < 2; ++d) {
      int64_t& extent = dx.shape[1 + d].count;
      const int64_t times = size[static_cast<size_t>(d)];
      if (extent % times != 0) {
        refuse("multiples of size", to_string(node.inputs[0].shape),
               "Check the node's attributes.");
      }
      extent /= times;
    }
    return {dx};
  }
};

}  // namespace

void register_upsample2d(OpRegistry& registry) {
  add_op<Upsample2d>(registry);
  add_op<Upsample2dGrad>(registry);
}

}  // namespace plimsoll::ops
