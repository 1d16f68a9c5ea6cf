// max_pool3d: the maximum of each window over a volume, and where it stood.
//
// (B, depth, height, width, C) → (B, …, C). A NaN wins. The gradient goes to every position that is
// equal to the maximum, in full, as that of TensorFlow's MaxPool3D (that of images goes to the
// first alone: max_pool2d.cpp). The second output, winners (B, …, ⌈taps / 8⌉ C), has for channel c
// of an output, in byte t / 8 · C + c, bit t % 8 set where tap t of the window, in row-major order,
// is one of them.

#include "base/ceil_div.h"
#include "base/format.h"
#include "ops/image/pool.h"
#include "ops/image/window_rows.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr int kRank = 5;
// More would be an array that cannot be addressed.
constexpr int64_t kMostTaps = int64_t{1} << 30;

// The three sizes of a value.
std::vector<int64_t> sizes_of(const Shape& x) { return {x[1].count, x[2].count, x[3].count}; }

int64_t winner_bytes(const Windows& windows) { return ceil_div(windows.taps(), int64_t{8}); }

// The output of the windows with so many channels.
Shape pooled_shape(const Windows& windows, Dim batch, int64_t channels) {
  return Shape{batch, Dim::constant(windows.slabs().output), Dim::constant(windows.rows().output),
               Dim::constant(windows.columns().output), Dim::constant(channels)};
}

// Throws kModel.
Windows checked_windows(const NodeTypes& node, const std::vector<int64_t>& sizes) {
  const Windows windows = checked_pool_windows(node, sizes);
  int64_t taps = 1;
  for (const Window& window : windows) {
    if (window.size <= kMostTaps / taps) {
      taps *= window.size;
      continue;
    }
    refuse(fmt::format("at most {} positions in a window", kMostTaps), "more",
           "Use a smaller window.");
  }
  return windows;
}

class MaxPool3d final : public BatchMapOp {
 public:
  MaxPool3d() : BatchMapOp("max_pool3d") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike_real(node, 1);
    expect_rank(node, 0, kRank, kRank);
    const ValueType& x = node.inputs[0];
    const Windows windows = checked_windows(node, sizes_of(x.shape));
    const int64_t channels = x.shape[4].count;
    int64_t bytes = winner_bytes(windows);
    if (__builtin_mul_overflow(bytes, channels, &bytes)) {
      refuse("winners that can be addressed", to_string(x.shape), "Use a smaller window.");
    }
    return {{x.dtype, pooled_shape(windows, x.shape[0], channels)},
            {DType::kUInt8, pooled_shape(windows, x.shape[0], bytes)}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    Attributes attributes = context.attributes();
    attributes.set("input_shape", sample_dims(context.input_type(0).shape));
    context.set_gradient(
        0, context.builder().call("max_pool3d_grad", context.name("grad"),
                                  {context.output_gradient(0), context.output(1)}, attributes));
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return window_axes(node, windows_of(node)[0]);
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }
  double flops_per_sample(const NodeTypes& node) const override {
    const Windows windows = windows_of(node);
    const Shape& x = node.inputs[0].shape;
    // Each position of a window is compared twice.
    return 2.0 * static_cast<double>(windows.outputs()) * static_cast<double>(windows.taps()) *
           static_cast<double>(x[4].count * x[0].count);
  }

 private:
  static Windows windows_of(const NodeTypes& node) {
    return pool_windows(node.attributes, sizes_of(node.inputs[0].shape));
  }
};

// (dy, winners) {…, input_shape} → dx
class MaxPool3dGrad final : public BatchMapOp {
 public:
  MaxPool3dGrad() : BatchMapOp("max_pool3d_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_real(node, 0);
    expect_rank(node, 0, kRank, kRank);
    const ValueType& dy = node.inputs[0];
    const std::vector<int64_t> shape = read_ints(node, "input_shape", kRank - 1, 1);
    const Windows windows = checked_windows(node, {shape[0], shape[1], shape[2]});
    expect_type(node, 0, {dy.dtype, pooled_shape(windows, dy.shape[0], shape[3])});
    int64_t bytes = winner_bytes(windows);
    if (__builtin_mul_overflow(bytes, shape[3], &bytes)) {
      refuse("winners that can be addressed", to_string(dy.shape), "Use a smaller window.");
    }
    expect_type(node, 1, {DType::kUInt8, pooled_shape(windows, dy.shape[0], bytes)});
    std::vector<Dim> dims = {dy.shape[0]};
    for (const int64_t extent : shape) dims.push_back(Dim::constant(extent));
    return {{dy.dtype, Shape(std::move(dims))}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return window_gradient_axes(node, windows_of(node)[0], false);
  }
  double flops_per_sample(const NodeTypes& node) const override {
    const Windows windows = windows_of(node);
    const Shape& dx = node.outputs[0].shape;
    return static_cast<double>(windows.outputs()) * static_cast<double>(windows.taps()) *
           static_cast<double>(dx[4].count * dx[0].count);
  }

 private:
  static Windows windows_of(const NodeTypes& node) {
    return pool_windows(node.attributes, sizes_of(node.outputs[0].shape));
  }
};

}  // namespace

void register_max_pool3d(OpRegistry& registry) {
  add_op<MaxPool3d>(registry);
  add_op<MaxPool3dGrad>(registry);
}

}  // namespace plimsoll::ops
