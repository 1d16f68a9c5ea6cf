// max_pool2d: the maximum of each window, and where it stood.
//
// The winner is the first maximum in row-major order of the window, as its index there; a NaN wins.
// The gradient goes to the winner alone, so nothing of the input has to be kept.

#include "ops/image/pool.h"
#include "ops/image/window_rows.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class MaxPool2d final : public BatchMapOp {
 public:
  MaxPool2d() : BatchMapOp("max_pool2d") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, 4, 4);
    const ValueType& x = node.inputs[0];
    const Windows window = checked_pool2d_window(node, x.shape[1].count, x.shape[2].count);
    const DType winner = read_dtype(node, "winner_dtype", DType::kUInt8);
    if (winner != DType::kUInt8 && winner != DType::kInt32) {
      refuse("winner_dtype \"uint8\" or \"int32\"", std::string(to_string(winner)),
             "Check the node's attributes.");
    }
    const int64_t positions = window[0].size * window[1].size;
    if (winner == DType::kUInt8 && positions > 256) {
      refuse("at most 256 positions in a window whose winners are uint8", std::to_string(positions),
             "Use winner_dtype \"int32\".");
    }
    const Shape y{x.shape[0], Dim::constant(window[0].output), Dim::constant(window[1].output),
                  x.shape[3]};
    return {{x.dtype, y}, {winner, y}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    Attributes attributes = context.attributes();
    attributes.set("input_shape", sample_dims(context.input_type(0).shape));
    context.set_gradient(
        0, context.builder().call("max_pool2d_grad", context.name("grad"),
                                  {context.output_gradient(0), context.output(1)}, attributes));
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

// (dy, winners) {…, input_shape} → dx
class MaxPool2dGrad final : public BatchMapOp {
 public:
  MaxPool2dGrad() : BatchMapOp("max_pool2d_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_real(node, 0);
    expect_rank(node, 0, 4, 4);
    const ValueType& dy = node.inputs[0];
    const std::vector<int64_t> shape = read_ints(node, "input_shape", 3, 1);
    const Windows window = checked_pool2d_window(node, shape[0], shape[1]);
    const Shape expected{dy.shape[0], Dim::constant(window[0].output),
                         Dim::constant(window[1].output), Dim::constant(shape[2])};
    expect_type(node, 0, {dy.dtype, expected});
    expect_type(node, 1, {read_dtype(node, "winner_dtype", DType::kUInt8), expected});
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

void register_max_pool2d(OpRegistry& registry) {
  add_op<MaxPool2d>(registry);
  add_op<MaxPool2dGrad>(registry);
}

}  // namespace plimsoll::ops
