// MaxPooling2D: the maximum of each window.

#include "layers/all_layers.h"
#include "layers/pooling.h"

namespace plimsoll::layers {
namespace {

// Positions of a window that one byte can tell apart.
constexpr int64_t kMaxByteWinners = 256;

class MaxPooling2D final : public Layer {
 public:
  static constexpr std::string_view kClassName = "MaxPooling2D";

  explicit MaxPooling2D(ConfigReader& reader)
      : Layer(reader), options_(read_pooling_options(reader)) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 4);
    Attributes attributes = pooling_attributes(options_, shape);
    const int64_t positions = options_.pool_size[0] * options_.pool_size[1];
    attributes.set("winner_dtype", positions <= kMaxByteWinners ? "uint8" : "int32");
    return {context.emit_all("max_pool2d", {inputs[0]}, attributes)[0]};
  }

 private:
  PoolingOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_max_pooling2d(const Config& config) {
  return construct_layer<MaxPooling2D>(config);
}

}  // namespace plimsoll::layers
