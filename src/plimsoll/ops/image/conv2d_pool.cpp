// conv2d_pool: a convolution, its bias and ReLU, and a maximum pooling in one node.
//
//   (x, kernel [, bias])   {…, pool_size} → (y, winners)
//   (x, dy, winners)       conv2d_pool_grad_kernel → (dkernel [, dbias])
//   (dy, winners, kernel)  conv2d_pool_grad_input → dx
//
// The result of the convolution is never kept, and neither is its gradient: after the pooling only
// one position of each window has one, and after ReLU only where the maximum is positive. A winner
// is that position in row-major order of the window, the first maximum, a NaN before all others; or
// the number of positions where ReLU lets no gradient through. The gradients skip what is zero, so
// they equal those of the separate nodes wherever x and kernel are finite.

#include "ops/image/conv2d_pool.h"

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr std::string_view kForward = "conv2d_pool";
constexpr std::string_view kGradInput = "conv2d_pool_grad_input";
constexpr std::string_view kGradKernel = "conv2d_pool_grad_kernel";

class Conv2dPoolFamily : public NamedOp {
 public:
  using NamedOp::NamedOp;

 protected:
  static Conv2dPoolGeometry checked_geometry(const NodeTypes& node, std::string_view op) {
    read_ints(node, "kernel_size", 2, 1);
    read_ints(node, "strides", 2, 1);
    read_ints(node, "dilation_rate", 2, 1);
    read_ints(node, "padding", 4, 0);
    read_ints(node, "pool_size", 2, 1);
    read_int(node, "filters", 1);
    read_name(node, "activation", "linear", {"linear", "relu"});
    if (read_int(node, "groups", 1) != 1) {
      refuse("one group", std::to_string(node.attributes.get_int("groups")),
             "Use conv2d and max_pool2d.");
    }
    const Conv2dPoolGeometry g = conv2d_pool_geometry(op, node);
    if (g.taps() > 255) {
      refuse("at most 255 positions in a window", std::to_string(g.taps()),
             "Use conv2d and max_pool2d.");
    }
    if (g.rows() < 1 || g.columns() < 1) {
      refuse("a result at least as large as the window",
             fmt::format("{} x {}", g.conv.rows().output, g.conv.columns().output),
             "Use a smaller window or a larger input.");
    }
    return g;
  }
  static Shape kernel_shape(const Conv2dGeometry& g) {
    return Shape{Dim::constant(g.rows().size), Dim::constant(g.columns().size),
                 Dim::constant(g.channels), Dim::constant(g.filters)};
  }
  static Shape pooled_shape(const Conv2dPoolGeometry& g, Dim batch) {
    return Shape{batch, Dim::constant(g.rows()), Dim::constant(g.columns()),
                 Dim::constant(g.conv.filters)};
  }
  static double flops_of_all(const Conv2dPoolGeometry& g) {
    return 2.0 * static_cast<double>(g.conv.rows().output * g.conv.columns().output) *
           static_cast<double>(g.conv.kernel_elements());
  }
};

class Conv2dPool final : public Conv2dPoolFamily {
 public:
  Conv2dPool() : Conv2dPoolFamily(kForward) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const size_t operands = node.attributes.get_bool("use_bias", false) ? 3 : 2;
    expect_operands(node, operands, operands);
    expect_real(node, 0);
    expect_rank(node, 0, 4, 4);
    const Conv2dPoolGeometry g = checked_geometry(node, kForward);
    const ValueType& x = node.inputs[0];
    if (node.inputs[1].dtype != DType::kOpaque) {
      expect_type(node, 1, {x.dtype, kernel_shape(g.conv)});
    }
    if (operands > 2)
      expect_type(node, 2, {wide_dtype(x.dtype), Shape{Dim::constant(g.conv.filters)}});
    const Shape y = pooled_shape(g, x.shape[0]);
    return {{x.dtype, y}, {DType::kUInt8, y}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return graph::batch_map_axis(node);
  }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const ValueId dy = context.output_gradient(0);
    const ValueId winners = context.output(1);
    Attributes attributes = context.attributes();
    const bool wants_bias = context.input_count() > 2 && context.wants(2);
    attributes.set("use_bias", wants_bias);
    if (context.wants(1) || wants_bias) {
      const graph::NodeId node = builder.add(kGradKernel, context.name("grad_kernel"),
                                             {context.input(0), dy, winners}, attributes);
      const std::vector<ValueId> outputs = builder.graph().node(node).outputs;
      if (context.wants(1)) context.set_gradient(1, outputs[0]);
      if (wants_bias) context.set_gradient(2, outputs[1]);
    }
    if (context.wants(0)) {
      attributes.set("use_bias", false);
      attributes.set("input_shape", sample_dims(context.input_type(0).shape));
      context.set_gradient(0, builder.call(kGradInput, context.name("grad_input"),
                                           {dy, winners, context.input(1)}, attributes));
    }
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kConvolution, OpPass::kForward, OpFusion::kPool}};
  }
  double flops_per_sample(const NodeTypes& node) const override {
    return flops_of_all(conv2d_pool_geometry(kForward, node)) *
           static_cast<double>(node.inputs[0].shape[0].count);
  }
};

// At most one position of a window has a gradient.
class Conv2dPoolGradInput final : public Conv2dPoolFamily {
 public:
  Conv2dPoolGradInput() : Conv2dPoolFamily(kGradInput) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_real(node, 0);
    expect_rank(node, 0, 4, 4);
    const std::vector<int64_t> shape = read_ints(node, "input_shape", 3, 1);
    const Conv2dPoolGeometry g = checked_geometry(node, kGradInput);
    const ValueType& dy = node.inputs[0];
    const Shape pooled = pooled_shape(g, dy.shape[0]);
    expect_type(node, 0, {dy.dtype, pooled});
    expect_type(node, 1, {DType::kUInt8, pooled});
    expect_type(node, 2, {dy.dtype, kernel_shape(g.conv)});
    return {{dy.dtype, Shape{dy.shape[0], Dim::constant(shape[0]), Dim::constant(shape[1]),
                             Dim::constant(shape[2])}}};
  }
  std::vector<Axis> axes(const NodeTypes& node) const override {
    return graph::batch_map_axis(node);
  }
  OpTraits traits() const override {
    return {.work = {OpFamily::kConvolution, OpPass::kGradInput, OpFusion::kPool}};
  }
  double flops_per_sample(const NodeTypes& node) const override {
    const Conv2dPoolGeometry g = conv2d_pool_geometry(kGradInput, node);
    return flops_of_all(g) / static_cast<double>(g.taps()) *
           static_cast<double>(node.inputs[0].shape[0].count);
  }
};

class Conv2dPoolGradKernel final : public Conv2dPoolFamily {
 public:
  Conv2dPoolGradKernel() : Conv2dPoolFamily(kGradKernel) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_real(node, 0);
    expect_rank(node, 0, 4, 4);
    const Conv2dPoolGeometry g = checked_geometry(node, kGradKernel);
    const ValueType& x = node.inputs[0];
    const Shape pooled = pooled_shape(g, x.shape[0]);
    expect_type(node, 1, {x.dtype, pooled});
    expect_type(node, 2, {DType::kUInt8, pooled});
    std::vector<ValueType> outputs = {{wide_dtype(x.dtype), kernel_shape(g.conv)}};
    if (node.attributes.get_bool("use_bias", false)) {
      outputs.push_back({wide_dtype(x.dtype), Shape{Dim::constant(g.conv.filters)}});
    }
    return outputs;
  }
  std::vector<Axis> axes(const NodeTypes& node) const override {
    return graph::batch_reduce_axis(node);
  }
  OpTraits traits() const override {
    return {.work = {OpFamily::kConvolution, OpPass::kGradKernel, OpFusion::kPool}};
  }
  double flops_per_sample(const NodeTypes& node) const override {
    const Conv2dPoolGeometry g = conv2d_pool_geometry(kGradKernel, node);
    return flops_of_all(g) / static_cast<double>(g.taps()) *
           static_cast<double>(node.inputs[0].shape[0].count);
  }
};

}  // namespace

Conv2dPoolGeometry conv2d_pool_geometry(std::string_view op, const graph::NodeTypes& node) {
  Conv2dPoolGeometry g;
  if (op == kGradInput) {
    const std::vector<int64_t>& shape = node.attributes.get_ints("input_shape");
    g.conv = conv2d_geometry(node.attributes, shape[0], shape[1], shape[2]);
  } else {
    const Shape& x = node.inputs[0].shape;
    g.conv = conv2d_geometry(node.attributes, x[1].count, x[2].count, x[3].count);
  }
  const std::vector<int64_t>& pool = node.attributes.get_ints("pool_size");
  g.pool_rows = pool[0];
  g.pool_columns = pool[1];
  g.relu = node.attributes.get_string("activation", "linear") == "relu";
  return g;
}

void register_conv2d_pool(OpRegistry& registry) {
  add_op<Conv2dPool>(registry);
  add_op<Conv2dPoolGradInput>(registry);
  add_op<Conv2dPoolGradKernel>(registry);
}

}  // namespace plimsoll::ops
