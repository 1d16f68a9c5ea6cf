// Layers that keras.applications defines for its own networks: LayerScale of ConvNeXt and
// CustomScaleLayer of InceptionResNetV2.

#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

// x · gamma, with one trained factor a channel (Touvron et al., "Going deeper with Image
// Transformers", 2021).
class LayerScale final : public Layer {
 public:
  static constexpr std::string_view kClassName = "LayerScale";

  explicit LayerScale(ConfigReader& reader) : Layer(reader) {
    first_ = reader.number("init_values", 1e-6);
    channels_ = reader.integer("projection_dim", 1, 1);
  }

  std::vector<Weight> weights(std::span<const ValueType>) const override {
    Config first = complete_initializer("constant");
    Config values = *first.find("config");
    values.set("value", first_);
    first.set("config", std::move(values));
    return {{.name = "gamma", .shape = {channels_}, .initializer = std::move(first)}};
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    const int64_t last = shape.rank() < 2 ? 1 : shape[shape.rank() - 1].count;
    if (last != channels_) {
      refuse(fmt::format("projection_dim={}, the last dimension of {}", last, to_string(shape)),
             std::to_string(channels_), "");
    }
    const ValueId gamma = over_batch(context, context.weight("gamma"), shape);
    return {context.emit("multiply", {inputs[0], gamma})};
  }

 private:
  double first_ = 0;
  int64_t channels_ = 1;
};

// The first of two inputs, and the second times a number.
class CustomScaleLayer final : public Layer {
 public:
  static constexpr std::string_view kClassName = "CustomScaleLayer";

  explicit CustomScaleLayer(ConfigReader& reader) : Layer(reader) {
    scale_ = reader.number("scale", 1.0);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 2) refuse("two inputs", std::to_string(inputs.size()), "");
    const Shape& one = context.type(inputs[0]).shape;
    const Shape& other = context.type(inputs[1]).shape;
    if (one != other) refuse("two values of one shape, " + to_string(one), to_string(other), "");
    return {context.emit("add", {inputs[0], scaled(context, inputs[1], scale_, 0)})};
  }

 private:
  double scale_ = 1;
};

}  // namespace

std::shared_ptr<const Layer> make_custom_scale_layer(const Config& config) {
  return construct_layer<CustomScaleLayer>(config);
}
std::shared_ptr<const Layer> make_layer_scale(const Config& config) {
  return construct_layer<LayerScale>(config);
}

}  // namespace plimsoll::layers
