// AveragePooling2D: the mean of each window; padding does not count.

#include "layers/all_layers.h"
#include "layers/pooling.h"

namespace plimsoll::layers {
namespace {

class AveragePooling2D final : public Layer {
 public:
  static constexpr std::string_view kClassName = "AveragePooling2D";

  explicit AveragePooling2D(ConfigReader& reader)
      : Layer(reader), options_(read_pooling_options(reader)) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 4);
    return {context.emit("avg_pool2d", {inputs[0]}, pooling_attributes(options_, shape))};
  }

 private:
  PoolingOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_average_pooling2d(const Config& config) {
  return construct_layer<AveragePooling2D>(config);
}

}  // namespace plimsoll::layers
