// MaxPooling1D, MaxPooling2D, MaxPooling3D: the maximum of each window.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/pooling.h"

namespace plimsoll::layers {
namespace {

// Positions of a window that one byte can tell apart.
constexpr int64_t kMaxByteWinners = 256;

template <int kSpatial>
class MaxPooling final : public Layer {
 public:
  static constexpr std::string_view kClassName = kSpatial == 1   ? "MaxPooling1D"
                                                 : kSpatial == 2 ? "MaxPooling2D"
                                                                 : "MaxPooling3D";

  explicit MaxPooling(ConfigReader& reader)
      : Layer(reader), options_(read_pooling_options(reader, kSpatial, true)) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], options_.channels_first);
    Attributes attributes = pooling_attributes(options_, context.type(image).shape);
    if constexpr (kSpatial == 3) {
      const ValueId pooled = context.emit_all("max_pool3d", {image}, attributes)[0];
      return {from_image(context, pooled, kSpatial, options_.channels_first)};
    }
    const std::vector<int64_t>& size = attributes.get_ints("pool_size");
    attributes.set("winner_dtype", size[0] <= kMaxByteWinners / size[1] ? "uint8" : "int32");
    const ValueId pooled = context.emit_all("max_pool2d", {image}, attributes)[0];
    return {from_image(context, pooled, kSpatial, options_.channels_first)};
  }

 private:
  PoolingOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_max_pooling1d(const Config& config) {
  return construct_layer<MaxPooling<1>>(config);
}
std::shared_ptr<const Layer> make_max_pooling2d(const Config& config) {
  return construct_layer<MaxPooling<2>>(config);
}
std::shared_ptr<const Layer> make_max_pooling3d(const Config& config) {
  return construct_layer<MaxPooling<3>>(config);
}

}  // namespace plimsoll::layers
