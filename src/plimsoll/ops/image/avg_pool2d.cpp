// avg_pool2d: the mean over the positions of each window that lie inside of the input.

#include "ops/image/pool.h"
#include "ops/image/window_rows.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class AvgPool2d final : public BatchMapOp {
 public:
  AvgPool2d() : BatchMapOp("avg_pool2d") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    const ValueType& x = node.inputs[0];
    const Windows window = checked_pool2d_window(node, x.shape[1].count, x.shape[2].count);
    return {{x.dtype, Shape{x.shape[0], Dim::constant(window[0].output),
                            Dim::constant(window[1].output), x.shape[3]}}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    Attributes attributes = context.attributes();
    attributes.set("input_shape", sample_dims(context.input_type(0).shape));
    context.set_gradient(0, context.builder().call("avg_pool2d_grad", context.name("grad"),
                                                   {context.output_gradient(0)}, attributes));
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    const Shape& x = node.inputs[0].shape;
    return window_axes(node, pool2d_window(node.attributes, x[1].count, x[2].count)[0]);
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }
  double flops_per_sample(const NodeTypes& node) const override {
    const Shape& x = node.inputs[0].shape;
    const Windows w = pool2d_window(node.attributes, x[1].count, x[2].count);
    return static_cast<double>(w[0].output * w[1].output * x[3].count * w[0].size * w[1].size *
                               x[0].count);
  }
};

// (dy) {…, input_shape} → dx
class AvgPool2dGrad final : public BatchMapOp {
 public:
  AvgPool2dGrad() : BatchMapOp("avg_pool2d_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    const ValueType& dy = node.inputs[0];
    const std::vector<int64_t> shape = read_ints(node, "input_shape", 3, 1);
    const Windows window = checked_pool2d_window(node, shape[0], shape[1]);
    expect_type(node, 0,
                {dy.dtype, Shape{dy.shape[0], Dim::constant(window[0].output),
                                 Dim::constant(window[1].output), Dim::constant(shape[2])}});
    return {{dy.dtype, Shape{dy.shape[0], Dim::constant(shape[0]), Dim::constant(shape[1]),
                             Dim::constant(shape[2])}}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    const Shape& dx = node.outputs[0].shape;
    const Windows window = pool2d_window(node.attributes, dx[1].count, dx[2].count);
    return window_gradient_axes(node, window[0], false);
  }
};

}  // namespace

void register_avg_pool2d(OpRegistry& registry) {
  add_op<AvgPool2d>(registry);
  add_op<AvgPool2dGrad>(registry);
}

}  // namespace plimsoll::ops
