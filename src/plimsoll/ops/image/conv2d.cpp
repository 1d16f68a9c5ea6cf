#include "ops/image/conv2d.h"

#include "base/format.h"
#include "ops/image/window_rows.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr std::string_view kForward = "conv2d";
constexpr std::string_view kGradInput = "conv2d_grad_input";
constexpr std::string_view kGradKernel = "conv2d_grad_kernel";

class Conv2dFamily : public NamedOp {
 public:
  using NamedOp::NamedOp;

  double flops_per_sample(const NodeTypes& node) const override {
    const Conv2dGeometry g = conv2d_geometry(name(), node);
    const double positions = static_cast<double>(g.rows().output * g.columns().output);
    return 2.0 * positions * static_cast<double>(g.kernel_elements()) *
           static_cast<double>(node.inputs[0].shape[0].count);
  }

 protected:
  Conv2dGeometry checked_geometry(const NodeTypes& node, int64_t height, int64_t width,
                                  int64_t channels) const {
    read_ints(node, "kernel_size", 2, 1);
    read_ints(node, "strides", 2, 1);
    read_ints(node, "dilation_rate", 2, 1);
    read_ints(node, "padding", 4, 0);
    read_int(node, "filters", 1);
    read_int(node, "groups", 1);
    const Conv2dGeometry g = conv2d_geometry(node.attributes, height, width, channels);
    if (g.channels % g.groups != 0 || g.filters % g.groups != 0) {
      refuse(fmt::format("channels and filters that are multiples of groups={}", g.groups),
             fmt::format("{} channels and {} filters", g.channels, g.filters), "Change groups.");
    }
    if (g.rows().output < 1 || g.columns().output < 1) {
      refuse("an input at least as large as the kernel", fmt::format("{} x {}", height, width),
             "Use padding=\"same\", a smaller kernel, or a larger input.");
    }
    return g;
  }

  void expect_kernel(const NodeTypes& node, size_t input, const Conv2dGeometry& g) const {
    if (node.inputs[input].dtype == DType::kOpaque) return;
    expect_type(node, input, {node.inputs[0].dtype, kernel_shape(node, g)});
  }

  // As the attribute kernel_shape sees the kernel, where there is one.
  static Shape kernel_shape(const NodeTypes& node, const Conv2dGeometry& g) {
    if (!node.attributes.has("kernel_shape")) {
      return Shape{Dim::constant(g.rows().size), Dim::constant(g.columns().size),
                   Dim::constant(g.group_channels()), Dim::constant(g.filters)};
    }
    const Shape shape = fixed_shape(read_dims(node, "kernel_shape"));
    if (shape.elements_per_sample() != g.kernel_elements()) {
      refuse(fmt::format("a kernel_shape of {} elements", g.kernel_elements()), to_string(shape),
             "Check the node's attributes.");
    }
    return shape;
  }
  static Shape output_shape(const Conv2dGeometry& g, Dim batch) {
    return Shape{batch, Dim::constant(g.rows().output), Dim::constant(g.columns().output),
                 Dim::constant(g.filters)};
  }
};

class Conv2d final : public Conv2dFamily {
 public:
  Conv2d() : Conv2dFamily(kForward) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const bool use_bias = node.attributes.get_bool("use_bias", false);
    expect_operands(node, use_bias ? 3 : 2, use_bias ? 3 : 2);
    expect_real(node, 0);
    expect_rank(node, 0, 4, 4);
    const ValueType& x = node.inputs[0];
    const Conv2dGeometry g =
        checked_geometry(node, x.shape[1].count, x.shape[2].count, x.shape[3].count);
    expect_kernel(node, 1, g);
    if (use_bias) expect_type(node, 2, {wide_dtype(x.dtype), Shape{Dim::constant(g.filters)}});
    read_name(node, "activation", "linear", {"linear", "relu"});
    return {{x.dtype, output_shape(g, x.shape[0])}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return window_axes(node, conv2d_geometry(name(), node).rows());
  }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    ValueId dy = context.output_gradient(0);
    if (context.attributes().get_string("activation", "linear") == "relu") {
      dy = builder.call("activation_grad", context.name("activation_grad"), {dy, context.output(0)},
                        {{"kind", "relu"}, {"reference", "y"}});
    }
    Attributes attributes = context.attributes();
    attributes.set("activation", "linear");
    const bool wants_bias = context.input_count() > 2 && context.wants(2);
    attributes.set("use_bias", wants_bias);
    if (context.wants(1)) {
      const graph::NodeId node =
          builder.add(kGradKernel, context.name("grad_kernel"), {context.input(0), dy}, attributes);
      const std::vector<ValueId> outputs = builder.graph().node(node).outputs;
      context.set_gradient(1, outputs[0]);
      if (wants_bias) context.set_gradient(2, outputs[1]);
    } else if (wants_bias) {
      context.set_gradient(2, builder.call("bias_grad", context.name("bias_grad"), {dy}));
    }
    if (context.wants(0)) {
      attributes.set("use_bias", false);
      attributes.set("input_shape", sample_dims(context.input_type(0).shape));
      context.set_gradient(0, builder.call(kGradInput, context.name("grad_input"),
                                           {dy, context.input(1)}, attributes));
    }
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kConvolution, OpPass::kForward}, .bf16 = graph::kAsksForFactors};
  }
};

class Conv2dGradInput final : public Conv2dFamily {
 public:
  Conv2dGradInput() : Conv2dFamily(kGradInput) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_real(node, 0);
    expect_rank(node, 0, 4, 4);
    const std::vector<int64_t> shape = read_ints(node, "input_shape", 3, 1);
    const Conv2dGeometry g = checked_geometry(node, shape[0], shape[1], shape[2]);
    const ValueType& dy = node.inputs[0];
    expect_type(node, 0, {dy.dtype, output_shape(g, dy.shape[0])});
    expect_kernel(node, 1, g);
    return {{dy.dtype, Shape{dy.shape[0], Dim::constant(shape[0]), Dim::constant(shape[1]),
                             Dim::constant(shape[2])}}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return window_gradient_axes(node, conv2d_geometry(name(), node).rows(), true);
  }

  // Linear in both operands: the forward convolution leads back to dy, and the kernel meets the
  // gradient of the image as it met the image.
  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const ValueId dx = context.output_gradient(0);
    Attributes attributes = context.attributes();
    attributes.erase("input_shape");
    attributes.set("use_bias", false);
    if (context.wants(1)) {
      context.set_gradient(1, builder.call(kGradKernel, context.name("grad_kernel"),
                                           {dx, context.input(0)}, attributes));
    }
    if (context.wants(0)) {
      context.set_gradient(0, builder.call(kForward, context.name("grad_input"),
                                           {dx, context.input(1)}, attributes));
    }
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kConvolution, OpPass::kGradInput}, .bf16 = graph::kAsksForFactors};
  }
};

class Conv2dGradKernel final : public Conv2dFamily {
 public:
  Conv2dGradKernel() : Conv2dFamily(kGradKernel) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_real(node, 0);
    expect_rank(node, 0, 4, 4);
    const ValueType& x = node.inputs[0];
    const Conv2dGeometry g =
        checked_geometry(node, x.shape[1].count, x.shape[2].count, x.shape[3].count);
    expect_type(node, 1, {x.dtype, output_shape(g, x.shape[0])});
    std::vector<ValueType> outputs = {{wide_dtype(x.dtype), kernel_shape(node, g)}};
    if (node.attributes.get_bool("use_bias", false)) {
      outputs.push_back({wide_dtype(x.dtype), Shape{Dim::constant(g.filters)}});
    }
    return outputs;
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return window_reduce_axes(node, conv2d_geometry(name(), node).rows());
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kConvolution, OpPass::kGradKernel}};
  }
};

}  // namespace

Conv2dGeometry conv2d_geometry(const Attributes& attributes, int64_t height, int64_t width,
                               int64_t channels) {
  Conv2dGeometry g;
  g.window = make_window2d(height, width, attributes.get_ints("kernel_size"),
                           attributes.get_ints("strides"), attributes.get_ints("dilation_rate"),
                           attributes.get_ints("padding"));
  g.channels = channels;
  g.filters = attributes.get_int("filters");
  g.groups = attributes.get_int("groups");
  return g;
}

Conv2dGeometry conv2d_geometry(std::string_view op, const NodeTypes& node) {
  if (op == kGradInput) {
    const std::vector<int64_t>& shape = node.attributes.get_ints("input_shape");
    return conv2d_geometry(node.attributes, shape[0], shape[1], shape[2]);
  }
  const Shape& x = node.inputs[0].shape;
  return conv2d_geometry(node.attributes, x[1].count, x[2].count, x[3].count);
}

void register_conv2d(OpRegistry& registry) {
  add_op<Conv2d>(registry);
  add_op<Conv2dGradInput>(registry);
  add_op<Conv2dGradKernel>(registry);
}

}  // namespace plimsoll::ops
