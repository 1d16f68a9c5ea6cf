// Softmax: probabilities along one axis.

#include "layers/all_layers.h"

namespace plimsoll::layers {
namespace {

class Softmax final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Softmax";

  explicit Softmax(ConfigReader& reader) : Layer(reader) {
    const Config axis = reader.value("axis", -1);
    if (!axis.is_int()) {
      reader.refuse("axis", "one integer", axis.to_json(), "Reshape so that one axis is enough.");
    }
    axis_ = axis.as_int();
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    if (context.mask(0).valid()) {
      refuse(
          "values without a mask", "masked ones",
          "End the mask before the layer, or use an Activation(\"softmax\"), which does not look "
          "at it.");
    }
    const ValueId y = context.emit("softmax", {inputs[0]}, {{"axis", axis_}});
    context.remember_logits(y, inputs[0]);
    return {y};
  }

 private:
  int64_t axis_ = -1;
};

}  // namespace

std::shared_ptr<const Layer> make_softmax(const Config& config) {
  return construct_layer<Softmax>(config);
}

}  // namespace plimsoll::layers
