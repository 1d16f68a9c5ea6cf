// resize2d: an image of {size} (rows, columns), made from another size as TensorFlow's resize makes
// it, without antialiasing.
//
// Output i lies at (i + ½) · s − ½ of the input, s = input / output, in float32 whatever the
// numbers are. {interpolation} "nearest" takes the input at ⌊(i + ½) · s⌋; "bilinear" what lies
// between the rows below and above. resize2d_grad sums each output's gradient into what it was made
// of; its {size} is that of its result.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// Positions are computed in float32, which counts up to here.
constexpr int64_t kMostRows = int64_t{1} << 24;

class Resize2d final : public BatchMapOp {
 public:
  using BatchMapOp::BatchMapOp;

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    read_name(node, "interpolation", "bilinear", {"nearest", "bilinear"});
    const std::vector<int64_t> size = read_ints(node, "size", 2, 1);
    ValueType y = node.inputs[0];
    for (int d = 0; d < 2; ++d) {
      const int64_t to = size[static_cast<size_t>(d)];
      if (to > kMostRows || y.shape[1 + d].count > kMostRows) {
        refuse("at most 2^24 rows and columns", to_string(y.shape) + " to " + std::to_string(to),
               "Choose a smaller size.");
      }
      y.shape[1 + d] = Dim::constant(to);
    }
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const Shape& x = context.input_type(0).shape;
    Attributes attributes = context.attributes();
    attributes.set("size", std::vector<int64_t>{x[1].count, x[2].count});
    context.set_gradient(0, context.builder().call("resize2d_grad", context.name("grad"),
                                                   {context.output_gradient(0)}, attributes));
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return 12.0 * static_cast<double>(node.outputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_resize2d(OpRegistry& registry) {
  add_op<Resize2d>(registry, "resize2d");
  add_op<Resize2d>(registry, "resize2d_grad");
}

}  // namespace plimsoll::ops
