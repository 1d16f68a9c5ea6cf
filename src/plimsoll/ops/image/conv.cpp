// conv2d and conv3d, over images and over volumes, and their gradients.

#include "ops/image/conv.h"

#include <array>

#include "base/format.h"
#include "ops/image/conv2d.h"
#include "ops/image/window_rows.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// The operators of one rank.
struct ConvNames {
  size_t spatial;
  std::string_view forward, grad_input, grad_kernel;
};
constexpr ConvNames kImages{2, "conv2d", "conv2d_grad_input", "conv2d_grad_kernel"};
constexpr ConvNames kVolumes{3, "conv3d", "conv3d_grad_input", "conv3d_grad_kernel"};

class ConvFamily : public NamedOp {
 public:
  ConvFamily(std::string_view name, const ConvNames& names) : NamedOp(name), names_(names) {}

  double flops_per_sample(const NodeTypes& node) const override {
    const ConvGeometry g = conv_geometry(name(), node);
    return 2.0 * static_cast<double>(g.window.outputs()) *
           static_cast<double>(g.kernel_elements()) *
           static_cast<double>(node.inputs[0].shape[0].count);
  }

 protected:
  const ConvNames& names() const { return names_; }

  void expect_image(const NodeTypes& node) const {
    expect_real(node, 0);
    const int rank = static_cast<int>(names_.spatial) + 2;
    expect_rank(node, 0, rank, rank);
  }

  // `input`: (sizes…, channels).
  ConvGeometry checked_geometry(const NodeTypes& node, const std::vector<int64_t>& input) const {
    read_ints(node, "kernel_size", names_.spatial, 1);
    read_ints(node, "strides", names_.spatial, 1);
    read_ints(node, "dilation_rate", names_.spatial, 1);
    read_ints(node, "padding", 2 * names_.spatial, 0);
    read_int(node, "filters", 1);
    read_int(node, "groups", 1);
    const ConvGeometry g = conv_geometry(node.attributes, input);
    if (g.channels % g.groups != 0 || g.filters % g.groups != 0) {
      refuse(fmt::format("channels and filters that are multiples of groups={}", g.groups),
             fmt::format("{} channels and {} filters", g.channels, g.filters), "Change groups.");
    }
    for (const Window& window : g.window) {
      if (window.output >= 1) continue;
      std::string sizes;
      for (size_t i = 0; i < names_.spatial; ++i) {
        sizes += fmt::format("{}{}", i == 0 ? "" : " x ", input[i]);
      }
      refuse("an input at least as large as the kernel", sizes,
             "Use padding=\"same\", a smaller kernel, or a larger input.");
    }
    return g;
  }

  void expect_kernel(const NodeTypes& node, size_t input, const ConvGeometry& g) const {
    if (node.inputs[input].dtype == DType::kOpaque) return;
    expect_type(node, input, {node.inputs[0].dtype, kernel_shape(node, g)});
  }

  // As the attribute kernel_shape sees the kernel, where there is one.
  static Shape kernel_shape(const NodeTypes& node, const ConvGeometry& g) {
    if (!node.attributes.has("kernel_shape")) {
      std::vector<int64_t> dims;
      for (const Window& window : g.window) dims.push_back(window.size);
      dims.insert(dims.end(), {g.group_channels(), g.filters});
      return fixed_shape(dims);
    }
    const Shape shape = fixed_shape(read_dims(node, "kernel_shape"));
    if (shape.elements_per_sample() != g.kernel_elements()) {
      refuse(fmt::format("a kernel_shape of {} elements", g.kernel_elements()), to_string(shape),
             "Check the node's attributes.");
    }
    return shape;
  }
  static Shape output_shape(const ConvGeometry& g, Dim batch) {
    std::vector<Dim> dims = {batch};
    for (const Window& window : g.window) dims.push_back(Dim::constant(window.output));
    dims.push_back(Dim::constant(g.filters));
    return Shape(std::move(dims));
  }

 private:
  const ConvNames& names_;
};

class Conv final : public ConvFamily {
 public:
  explicit Conv(const ConvNames& names) : ConvFamily(names.forward, names) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const bool use_bias = node.attributes.get_bool("use_bias", false);
    expect_operands(node, use_bias ? 3 : 2, use_bias ? 3 : 2);
    expect_image(node);
    const ValueType& x = node.inputs[0];
    const ConvGeometry g = checked_geometry(node, sample_dims(x.shape));
    expect_kernel(node, 1, g);
    if (use_bias) expect_type(node, 2, {wide_dtype(x.dtype), Shape{Dim::constant(g.filters)}});
    read_name(node, "activation", "linear", {"linear", "relu"});
    return {{x.dtype, output_shape(g, x.shape[0])}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return window_axes(node, conv_geometry(name(), node).window[0]);
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
      const graph::NodeId node = builder.add(names().grad_kernel, context.name("grad_kernel"),
                                             {context.input(0), dy}, attributes);
      const std::vector<ValueId> outputs = builder.graph().node(node).outputs;
      context.set_gradient(1, outputs[0]);
      if (wants_bias) context.set_gradient(2, outputs[1]);
    } else if (wants_bias) {
      context.set_gradient(2, builder.call("bias_grad", context.name("bias_grad"), {dy}));
    }
    if (context.wants(0)) {
      attributes.set("use_bias", false);
      attributes.set("input_shape", sample_dims(context.input_type(0).shape));
      context.set_gradient(0, builder.call(names().grad_input, context.name("grad_input"),
                                           {dy, context.input(1)}, attributes));
    }
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kConvolution, OpPass::kForward}, .bf16 = graph::kAsksForFactors};
  }
};

class ConvGradInput final : public ConvFamily {
 public:
  explicit ConvGradInput(const ConvNames& names) : ConvFamily(names.grad_input, names) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_image(node);
    const std::vector<int64_t> shape = read_ints(node, "input_shape", names().spatial + 1, 1);
    const ConvGeometry g = checked_geometry(node, shape);
    const ValueType& dy = node.inputs[0];
    expect_type(node, 0, {dy.dtype, output_shape(g, dy.shape[0])});
    expect_kernel(node, 1, g);
    std::vector<Dim> dims = {dy.shape[0]};
    for (const int64_t extent : shape) dims.push_back(Dim::constant(extent));
    return {{dy.dtype, Shape(std::move(dims))}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return window_gradient_axes(node, conv_geometry(name(), node).window[0], true);
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
      context.set_gradient(1, builder.call(names().grad_kernel, context.name("grad_kernel"),
                                           {dx, context.input(0)}, attributes));
    }
    if (context.wants(0)) {
      context.set_gradient(0, builder.call(names().forward, context.name("grad_input"),
                                           {dx, context.input(1)}, attributes));
    }
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kConvolution, OpPass::kGradInput}, .bf16 = graph::kAsksForFactors};
  }
};

class ConvGradKernel final : public ConvFamily {
 public:
  explicit ConvGradKernel(const ConvNames& names) : ConvFamily(names.grad_kernel, names) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_image(node);
    const ValueType& x = node.inputs[0];
    const ConvGeometry g = checked_geometry(node, sample_dims(x.shape));
    expect_type(node, 1, {x.dtype, output_shape(g, x.shape[0])});
    std::vector<ValueType> outputs = {{wide_dtype(x.dtype), kernel_shape(node, g)}};
    if (node.attributes.get_bool("use_bias", false)) {
      outputs.push_back({wide_dtype(x.dtype), Shape{Dim::constant(g.filters)}});
    }
    return outputs;
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return window_reduce_axes(node, conv_geometry(name(), node).window[0]);
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kConvolution, OpPass::kGradKernel}};
  }
};

}  // namespace

ConvGeometry conv_geometry(const Attributes& attributes, std::span<const int64_t> input) {
  ConvGeometry g;
  g.window = make_windows(input.first(input.size() - 1), attributes.get_ints("kernel_size"),
                          attributes.get_ints("strides"), attributes.get_ints("dilation_rate"),
                          attributes.get_ints("padding"));
  g.channels = input.back();
  g.filters = attributes.get_int("filters");
  g.groups = attributes.get_int("groups");
  return g;
}

ConvGeometry conv_geometry(std::string_view op, const NodeTypes& node) {
  const bool to_input = op == kImages.grad_input || op == kVolumes.grad_input;
  return conv_geometry(node.attributes, to_input ? node.attributes.get_ints("input_shape")
                                                 : sample_dims(node.inputs[0].shape));
}

bool convolves_images(const NodeTypes& node) {
  return node.inputs[0].shape.rank() == graph::kImageRank;
}

Conv2dGeometry conv2d_geometry(const Attributes& attributes, int64_t height, int64_t width,
                               int64_t channels) {
  return conv_geometry(attributes, std::array{height, width, channels});
}

Conv2dGeometry conv2d_geometry(std::string_view op, const NodeTypes& node) {
  Conv2dGeometry g = conv_geometry(op, node);
  PLIMSOLL_CHECK(g.window.rank() == 2, "a kernel of images for a convolution of another rank");
  return g;
}

void register_conv(OpRegistry& registry) {
  for (const ConvNames* names : {&kImages, &kVolumes}) {
    add_op<Conv>(registry, *names);
    add_op<ConvGradInput>(registry, *names);
    add_op<ConvGradKernel>(registry, *names);
  }
}

}  // namespace plimsoll::ops
