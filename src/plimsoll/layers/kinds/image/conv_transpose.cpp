// Conv1DTranspose, Conv2DTranspose, Conv3DTranspose: the gradient of a convolution as a layer of
// its own. The kernel is (sizes…, filters, channels), which is that convolution's.

#include <algorithm>

#include "base/ceil_div.h"
#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/convolution.h"

namespace plimsoll::layers {
namespace {

// The extent of one dimension, as Keras counts (TensorFlow's padding).
struct Extent {
  int64_t output = 0;
  std::vector<int64_t> padding{};  // of the convolution that leads back
};

template <int kSpatial>
class ConvTranspose final : public Layer {
 public:
  static constexpr std::string_view kClassName = kSpatial == 1   ? "Conv1DTranspose"
                                                 : kSpatial == 2 ? "Conv2DTranspose"
                                                                 : "Conv3DTranspose";

  explicit ConvTranspose(ConfigReader& reader) : Layer(reader) {
    const std::vector<int64_t> ones(kSpatial, 1);
    filters_ = reader.integer("filters", 1);
    window_.kernel_size = reader.sizes("kernel_size", kSpatial, 1);
    window_.strides = reader.sizes("strides", ones, 1);
    window_.padding = read_convolution_padding(reader, kSpatial, false);
    read_output_padding(reader);
    window_.channels_first = reader.channels_first();
    window_.dilation_rate = reader.sizes("dilation_rate", ones, 1);
    if (*std::max_element(window_.strides.begin(), window_.strides.end()) > 1 &&
        *std::max_element(window_.dilation_rate.begin(), window_.dilation_rate.end()) > 1) {
      reader.refuse("dilation_rate", "1 where strides are above 1",
                    std::to_string(window_.dilation_rate[0]), "Keras does not combine them.");
    }
    options_ = read_kernel_options(reader);
    reader.legacy("groups");  // of older files, which do not use it
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() != kSpatial + 2) return {};
    std::vector<int64_t> shape = window_.kernel_size;
    shape.insert(shape.end(), {filters_, channels_of(inputs[0].shape, window_.channels_first)});
    return kernel_weights(options_, std::move(shape), filters_);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], window_.channels_first);
    const ValueId kernel = context.weight("kernel");
    const Shape shape = context.type(image).shape;
    std::vector<int64_t> padding;
    std::vector<int64_t> large;
    for (int d = 0; d < std::max(kSpatial, 2); ++d) {
      const Extent extent = d < kSpatial ? extent_of(static_cast<size_t>(d), shape[1 + d].count)
                                         : Extent{shape[1 + d].count, {0, 0}};
      large.push_back(extent.output);
      padding.insert(padding.end(), extent.padding.begin(), extent.padding.end());
    }
    large.push_back(filters_);
    const int64_t channels = channels_of(shape, false);
    Attributes attributes{{"filters", channels},
                          {"kernel_size", both_dimensions(window_.kernel_size)},
                          {"strides", both_dimensions(window_.strides)},
                          {"padding", padding},
                          {"dilation_rate", both_dimensions(window_.dilation_rate)},
                          {"groups", 1},
                          {"use_bias", false},
                          {"activation", "linear"},
                          {"input_shape", large}};
    set_kernel_shape(attributes, context.type(kernel).shape, filters_, channels);
    const std::string_view op = kSpatial == 3 ? "conv3d_grad_input" : "conv2d_grad_input";
    const ValueId product = context.emit(op, {image, kernel}, std::move(attributes));
    return {finish_image(context, options_, product, window_)};
  }

  bool penalizes_activity() const override {
    return Layer::penalizes_activity() || options_.activation.penalizes_activity();
  }

 private:
  void read_output_padding(ConfigReader& reader) {
    const Config given = reader.value("output_padding", Config());
    if (given.is_null()) return;
    output_padding_ = reader.sizes("output_padding", kSpatial, 0);
    for (size_t i = 0; i < kSpatial; ++i) {
      if (output_padding_[i] >= window_.strides[i]) {
        reader.refuse("output_padding", "less than strides", given.to_json());
      }
    }
  }

  Extent extent_of(size_t d, int64_t input) const {
    const int64_t stride = window_.strides[d];
    const int64_t span = (window_.kernel_size[d] - 1) * window_.dilation_rate[d] + 1;
    const bool asked = !output_padding_.empty();
    Extent extent{0, {0, 0}};
    if (window_.padding == "valid") {
      const int64_t more = asked ? output_padding_[d] : std::max(span, stride) - span;
      extent.output = (input - 1) * stride + span + more;
      return extent;
    }
    extent.output = asked ? (input - 1) * stride + span % 2 + output_padding_[d] : input * stride;
    if (ceil_div(extent.output, stride) != input) {
      refuse(fmt::format("an output_padding whose output leads back to {} rows", input),
             fmt::format("{}, which makes {} rows", output_padding_[d], extent.output),
             "Leave output_padding out, or use padding=\"valid\".");
    }
    extent.padding =
        same_padding(extent.output, window_.kernel_size[d], stride, window_.dilation_rate[d]);
    return extent;
  }

  int64_t filters_ = 1;
  ConvolutionWindow window_;
  std::vector<int64_t> output_padding_;  // empty: not asked for
  KernelOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_conv1d_transpose(const Config& config) {
  return construct_layer<ConvTranspose<1>>(config);
}
std::shared_ptr<const Layer> make_conv2d_transpose(const Config& config) {
  return construct_layer<ConvTranspose<2>>(config);
}
std::shared_ptr<const Layer> make_conv3d_transpose(const Config& config) {
  return construct_layer<ConvTranspose<3>>(config);
}

}  // namespace plimsoll::layers
