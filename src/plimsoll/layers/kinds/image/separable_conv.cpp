// SeparableConv1D, SeparableConv2D: a depthwise convolution, then one of size 1 over all channels,
// bias and activation.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/convolution.h"

namespace plimsoll::layers {
namespace {

template <int kSpatial>
class SeparableConv final : public Layer {
 public:
  static constexpr std::string_view kClassName =
      kSpatial == 1 ? "SeparableConv1D" : "SeparableConv2D";

  explicit SeparableConv(ConfigReader& reader) : Layer(reader) {
    depth_multiplier_ = reader.integer("depth_multiplier", 1, 1);
    filters_ = reader.integer("filters", 1);
    window_ = read_convolution_window(reader, kSpatial, kSpatial == 1);
    options_ = read_kernel_options(reader, {"depthwise", "pointwise"});
    // Older files have these, which inherit them from Conv2D and do not use them.
    for (const char* key :
         {"groups", "kernel_initializer", "kernel_regularizer", "kernel_constraint"}) {
      reader.legacy(key);
    }
    pointwise_.kernel_size.assign(kSpatial, 1);
    pointwise_.strides = pointwise_.dilation_rate = pointwise_.kernel_size;
    pointwise_.padding = "valid";
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() != kSpatial + 2) return {};
    const int64_t channels = channels_of(inputs[0].shape, window_.channels_first);
    std::vector<int64_t> depthwise = window_.kernel_size;
    depthwise.insert(depthwise.end(), {channels, depth_multiplier_});
    std::vector<int64_t> pointwise = pointwise_.kernel_size;
    pointwise.insert(pointwise.end(), {channels * depth_multiplier_, filters_});
    std::vector<Weight> weights = {
        make_weight("depthwise_kernel", std::move(depthwise), options_.kernels[0]),
        make_weight("pointwise_kernel", std::move(pointwise), options_.kernels[1])};
    if (options_.use_bias) weights.push_back(make_weight("bias", {filters_}, options_.bias));
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, kSpatial + 2);
    const int64_t channels = channels_of(shape, window_.channels_first);
    const ValueId image = to_image(context, inputs[0], window_.channels_first);
    const ValueId each =
        add_convolution(context, window_, image, context.weight("depthwise_kernel"),
                        channels * depth_multiplier_, channels);
    const ValueId all =
        add_convolution(context, pointwise_, each, context.weight("pointwise_kernel"), filters_, 1);
    return {finish_image(context, options_, all, window_)};
  }

  bool penalizes_activity() const override {
    return Layer::penalizes_activity() || options_.activation.penalizes_activity();
  }

 private:
  int64_t depth_multiplier_ = 1;
  int64_t filters_ = 1;
  ConvolutionWindow window_;
  ConvolutionWindow pointwise_;
  KernelOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_separable_conv1d(const Config& config) {
  return construct_layer<SeparableConv<1>>(config);
}
std::shared_ptr<const Layer> make_separable_conv2d(const Config& config) {
  return construct_layer<SeparableConv<2>>(config);
}

}  // namespace plimsoll::layers
