// DepthwiseConv1D, DepthwiseConv2D: each channel by itself with depth_multiplier kernels of its
// own, which is a convolution in as many groups as there are channels.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/convolution.h"

namespace plimsoll::layers {
namespace {

template <int kSpatial>
class DepthwiseConv final : public Layer {
 public:
  static constexpr std::string_view kClassName =
      kSpatial == 1 ? "DepthwiseConv1D" : "DepthwiseConv2D";

  explicit DepthwiseConv(ConfigReader& reader) : Layer(reader) {
    depth_multiplier_ = reader.integer("depth_multiplier", 1, 1);
    window_ = read_convolution_window(reader, kSpatial, false);
    options_ = read_kernel_options(reader, {"depthwise"});
    // Older files have these, which inherit them from Conv2D and do not use them.
    for (const char* key :
         {"groups", "kernel_initializer", "kernel_regularizer", "kernel_constraint"}) {
      reader.legacy(key);
    }
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() != kSpatial + 2) return {};
    const int64_t channels = channels_of(inputs[0].shape, window_.channels_first);
    std::vector<int64_t> shape = window_.kernel_size;
    shape.insert(shape.end(), {channels, depth_multiplier_});
    return kernel_weights(options_, std::move(shape), channels * depth_multiplier_);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, kSpatial + 2);
    const int64_t channels = channels_of(shape, window_.channels_first);
    const ValueId image = to_image(context, inputs[0], window_.channels_first);
    const ValueId product = add_convolution(context, window_, image, context.weight("kernel"),
                                            channels * depth_multiplier_, channels);
    return {finish_image(context, options_, product, window_)};
  }

  bool penalizes_activity() const override {
    return Layer::penalizes_activity() || options_.activation.penalizes_activity();
  }

 private:
  int64_t depth_multiplier_ = 1;
  ConvolutionWindow window_;
  KernelOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_depthwise_conv1d(const Config& config) {
  return construct_layer<DepthwiseConv<1>>(config);
}
std::shared_ptr<const Layer> make_depthwise_conv2d(const Config& config) {
  return construct_layer<DepthwiseConv<2>>(config);
}

}  // namespace plimsoll::layers
