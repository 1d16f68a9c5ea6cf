// Conv1D, Conv2D, Conv3D: activation(convolution(x, kernel) + bias).

#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/convolution.h"

namespace plimsoll::layers {
namespace {

template <int kSpatial>
class Conv final : public Layer {
 public:
  static constexpr std::string_view kClassName = kSpatial == 1   ? "Conv1D"
                                                 : kSpatial == 2 ? "Conv2D"
                                                                 : "Conv3D";

  explicit Conv(ConfigReader& reader) : Layer(reader) {
    filters_ = reader.integer("filters", 1);
    window_ = read_convolution_window(reader, kSpatial, kSpatial == 1);
    groups_ = reader.integer("groups", 1, 1);
    if (filters_ % groups_ != 0) {
      reader.refuse("groups", fmt::format("a divisor of filters={}", filters_),
                    std::to_string(groups_));
    }
    options_ = read_kernel_options(reader);
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() != kSpatial + 2) return {};
    const int64_t channels = channels_of(inputs[0].shape, window_.channels_first);
    if (channels % groups_ != 0) {
      refuse(fmt::format("channels that are a multiple of groups={}", groups_),
             std::to_string(channels), "Change groups.");
    }
    std::vector<int64_t> shape = window_.kernel_size;
    shape.insert(shape.end(), {channels / groups_, filters_});
    return kernel_weights(options_, std::move(shape));
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], window_.channels_first);
    const ValueId product =
        add_convolution(context, window_, image, context.weight("kernel"), filters_, groups_);
    return {finish_image(context, options_, product, window_)};
  }

  bool penalizes_activity() const override {
    return Layer::penalizes_activity() || options_.activation.penalizes_activity();
  }

 private:
  int64_t filters_ = 1;
  ConvolutionWindow window_;
  int64_t groups_ = 1;
  KernelOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_conv1d(const Config& config) {
  return construct_layer<Conv<1>>(config);
}
std::shared_ptr<const Layer> make_conv2d(const Config& config) {
  return construct_layer<Conv<2>>(config);
}
std::shared_ptr<const Layer> make_conv3d(const Config& config) {
  return construct_layer<Conv<3>>(config);
}

}  // namespace plimsoll::layers
