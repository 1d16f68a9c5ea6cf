// Layers that stand in networks of keras.applications alone: LayerScale of ConvNeXt, one trained
// factor a channel, and CustomScaleLayer of InceptionResNetV2, x + scale · y.

#include <optional>

#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation.h"

namespace plimsoll::layers {
namespace {

double read_number(ConfigReader& reader, std::string_view key) {
  const std::optional<double> given = reader.optional_number(key);
  if (!given) reader.refuse(key, "a number", "none");
  return *given;
}

class LayerScale final : public Layer {
 public:
  static constexpr std::string_view kClassName = "LayerScale";

  explicit LayerScale(ConfigReader& reader) : Layer(reader) {
    const double first = read_number(reader, "init_values");
    initializer_ = complete_initializer(
        Config::Object{{"class_name", "Constant"}, {"config", Config::Object{{"value", first}}}});
    channels_ = reader.integer("projection_dim", 1);
  }

  std::vector<Weight> weights(std::span<const ValueType>) const override {
    return {{"gamma", {channels_}, initializer_, Config(), true}};
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    if (shape[shape.rank() - 1].count != channels_) {
      refuse(fmt::format("{} channels", channels_), to_string(shape), "Check projection_dim.");
    }
    const ValueId gamma = over_batch(context, context.weight("gamma"), shape);
    return {context.emit("multiply", {inputs[0], gamma})};
  }

 private:
  Config initializer_;
  int64_t channels_ = 1;
};

class CustomScaleLayer final : public Layer {
 public:
  static constexpr std::string_view kClassName = "CustomScaleLayer";

  explicit CustomScaleLayer(ConfigReader& reader) : Layer(reader) {
    scale_ = read_number(reader, "scale");
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 2) {
      refuse("two inputs", std::to_string(inputs.size()), "Call it on a list.");
    }
    ValueId x = inputs[0];
    ValueId y = context.emit("scale_shift", {inputs[1]}, {{"scale", scale_}, {"offset", 0.0}});
    broadcast_together(context, x, y);
    return {context.emit("add", {x, y})};
  }

 private:
  double scale_ = 1;
};

}  // namespace

std::shared_ptr<const Layer> make_layer_scale(const Config& config) {
  return construct_layer<LayerScale>(config);
}
std::shared_ptr<const Layer> make_custom_scale_layer(const Config& config) {
  return construct_layer<CustomScaleLayer>(config);
}

}  // namespace plimsoll::layers
