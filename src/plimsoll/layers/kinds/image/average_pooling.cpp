// AveragePooling1D, AveragePooling2D: the mean of each window, padding not counted.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/pooling.h"

namespace plimsoll::layers {
namespace {

template <int kSpatial>
class AveragePooling final : public Layer {
 public:
  static constexpr std::string_view kClassName =
      kSpatial == 1 ? "AveragePooling1D" : "AveragePooling2D";

  explicit AveragePooling(ConfigReader& reader)
      : Layer(reader), options_(read_pooling_options(reader, kSpatial)) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], options_.channels_first);
    const ValueId pooled = context.emit("avg_pool2d", {image},
                                        pooling_attributes(options_, context.type(image).shape));
    return {from_image(context, pooled, kSpatial, options_.channels_first)};
  }

 private:
  PoolingOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_average_pooling1d(const Config& config) {
  return construct_layer<AveragePooling<1>>(config);
}
std::shared_ptr<const Layer> make_average_pooling2d(const Config& config) {
  return construct_layer<AveragePooling<2>>(config);
}

}  // namespace plimsoll::layers
