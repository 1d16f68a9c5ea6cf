// Mean and maximum over all positions of a sample, channel by channel.
//
// (B, height, width, C) → (B, C), or (B, 1, 1, C) with keepdims. A NaN is the maximum. The gradient
// of the maximum is shared by all positions that are equal to it, as that of TensorFlow's
// reduce_max: the second output, winners (B, ⌈positions / 8⌉, C), has bit p % 8 of byte p / 8 set
// where position p = row * width + column is one of them.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

Shape pooled_shape(const Shape& x, bool keepdims) {
  if (!keepdims) return Shape{x[0], x[3]};
  return Shape{x[0], Dim::constant(1), Dim::constant(1), x[3]};
}

// The type of the winners of a value of shape `x`.
ValueType winners_type(const Shape& x) {
  const int64_t positions = x[1].count * x[2].count;
  return {DType::kUInt8, Shape{x[0], Dim::constant((positions + 7) / 8), x[3]}};
}

Shape unpooled_shape(const NodeTypes& node) {
  const std::vector<int64_t> shape = read_ints(node, "input_shape", 3, 1);
  return Shape{node.inputs[0].shape[0], Dim::constant(shape[0]), Dim::constant(shape[1]),
               Dim::constant(shape[2])};
}

class GlobalPool2d final : public BatchMapOp {
 public:
  GlobalPool2d(std::string_view name, std::string_view grad, bool winners)
      : BatchMapOp(name), grad_(grad), winners_(winners) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    const ValueType& x = node.inputs[0];
    const Shape y = pooled_shape(x.shape, node.attributes.get_bool("keepdims", false));
    if (!winners_) return {{x.dtype, y}};
    return {{x.dtype, y}, winners_type(x.shape)};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    Attributes attributes = context.attributes();
    attributes.set("input_shape", sample_dims(context.input_type(0).shape));
    std::vector<ValueId> inputs = {context.output_gradient(0)};
    if (winners_) inputs.push_back(context.output(1));
    context.set_gradient(0,
                         context.builder().call(grad_, context.name("grad"), inputs, attributes));
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 private:
  std::string_view grad_;
  bool winners_;
};

// (dy[, winners]) {keepdims, input_shape} → dx
class GlobalPool2dGrad final : public BatchMapOp {
 public:
  GlobalPool2dGrad(std::string_view name, bool winners) : BatchMapOp(name), winners_(winners) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, winners_ ? 2 : 1, winners_ ? 2 : 1);
    expect_real(node, 0);
    expect_rank(node, 0, 2, 4);
    const Shape x = unpooled_shape(node);
    const Shape y = pooled_shape(x, node.attributes.get_bool("keepdims", false));
    expect_type(node, 0, {node.inputs[0].dtype, y});
    if (winners_) expect_type(node, 1, winners_type(x));
    return {{node.inputs[0].dtype, x}};
  }

 private:
  bool winners_;
};

}  // namespace

void register_global_pool2d(OpRegistry& registry) {
  add_op<GlobalPool2d>(registry, "global_average_pool2d", "global_average_pool2d_grad", false);
  add_op<GlobalPool2d>(registry, "global_max_pool2d", "global_max_pool2d_grad", true);
  add_op<GlobalPool2dGrad>(registry, "global_average_pool2d_grad", false);
  add_op<GlobalPool2dGrad>(registry, "global_max_pool2d_grad", true);
}

}  // namespace plimsoll::ops
