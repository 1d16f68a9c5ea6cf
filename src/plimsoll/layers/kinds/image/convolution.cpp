#include "layers/kinds/image/convolution.h"

#include "base/format.h"

namespace plimsoll::layers {
namespace {

// {top, bottom, left, right} of the window on an image, and of one on a volume.
std::vector<int64_t> image_padding(const ConvolutionWindow& window, const Shape& image) {
  const std::vector<int64_t> size = both_dimensions(window.kernel_size);
  const std::vector<int64_t> dilation = both_dimensions(window.dilation_rate);
  if (window.padding == "causal") return {dilation[0] * (size[0] - 1), 0, 0, 0};
  return window_padding(window.padding, image, size, both_dimensions(window.strides), dilation);
}

// Zeros around an image that a layer before put there are the convolution's own, where none of its
// windows sees nothing else: the image that they were put around, with `padding` of both; or
// `image`.
ValueId without_borders(const LayerContext& context, const ConvolutionWindow& window, ValueId image,
                        std::vector<int64_t>& padding) {
  const graph::Node* maker = context.maker(image);
  if (maker == nullptr || maker->op->name() != "zero_pad2d") return image;
  std::vector<int64_t> both = maker->attributes.get_ints("padding");
  const std::vector<int64_t> size = both_dimensions(window.kernel_size);
  const std::vector<int64_t> dilation = both_dimensions(window.dilation_rate);
  for (size_t i = 0; i < both.size(); ++i) {
    both[i] += padding[i];
    if (both[i] > (size[i / 2] - 1) * dilation[i / 2]) return image;
  }
  padding = std::move(both);
  return maker->inputs[0];
}

}  // namespace

std::string read_convolution_padding(ConfigReader& reader, int spatial, bool causal) {
  const Config given = reader.value("padding", "valid");
  if (causal) return reader.choice("padding", "valid", {"valid", "same", "causal"});
  if (spatial >= 2 && given.is_string() && given.as_string() == "causal") {
    reader.refuse("padding", "\"valid\" or \"same\"", "\"causal\"",
                  fmt::format("Causal padding exists in one dimension only: put a ZeroPadding{}D "
                              "before the layer and use \"valid\".",
                              spatial));
  }
  return reader.choice("padding", "valid", {"valid", "same"});
}

ConvolutionWindow read_convolution_window(ConfigReader& reader, int spatial, bool causal) {
  const auto count = static_cast<size_t>(spatial);
  const std::vector<int64_t> ones(count, 1);
  ConvolutionWindow window;
  window.kernel_size = reader.sizes("kernel_size", count, 1);
  window.strides = reader.sizes("strides", ones, 1);
  window.padding = read_convolution_padding(reader, spatial, causal);
  window.channels_first = reader.channels_first();
  window.dilation_rate = reader.sizes("dilation_rate", ones, 1);
  return window;
}

void set_kernel_shape(Attributes& attributes, const Shape& kernel, int64_t inputs,
                      int64_t outputs) {
  std::vector<int64_t> plain = attributes.get_ints("kernel_size");
  plain.insert(plain.end(), {inputs, outputs});
  if (kernel != fixed_shape(plain)) attributes.set("kernel_shape", kernel.at(1));
}

ValueId add_convolution(LayerContext& context, const ConvolutionWindow& window, ValueId image,
                        ValueId kernel, int64_t filters, int64_t groups) {
  std::vector<int64_t> padding = image_padding(window, context.type(image).shape);
  const bool volume = window.spatial() == 3;
  if (!volume) image = without_borders(context, window, image, padding);
  Attributes attributes{{"filters", filters},
                        {"kernel_size", both_dimensions(window.kernel_size)},
                        {"strides", both_dimensions(window.strides)},
                        {"padding", padding},
                        {"dilation_rate", both_dimensions(window.dilation_rate)},
                        {"groups", groups},
                        {"use_bias", false},
                        {"activation", "linear"}};
  const int64_t channels = channels_of(context.type(image).shape, false);
  set_kernel_shape(attributes, context.type(kernel).shape, channels / groups, filters);
  return context.emit(volume ? "conv3d" : "conv2d", {image, kernel}, std::move(attributes));
}

ValueId finish_image(LayerContext& context, const KernelOptions& options, ValueId product,
                     const ConvolutionWindow& window) {
  const auto leave = [&](ValueId image) {
    return from_image(context, image, window.spatial(), window.channels_first);
  };
  if (options.use_bias) product = context.emit("bias_add", {product, context.weight("bias")});
  // The last dimension of the output, whatever that is.
  if (options.activation.along_last()) return options.activation.apply(context, leave(product));
  const ValueId image = options.activation.apply(context, product);
  const ValueId output = leave(image);
  const ValueId logits = context.logits_of(image);
  if (output != image && logits.valid())
    context.remember_logits(output, leave(logits), context.made_by(image));
  return output;
}

}  // namespace plimsoll::layers
