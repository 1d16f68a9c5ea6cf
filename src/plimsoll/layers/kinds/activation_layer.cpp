// Activation: any of Keras's activations by name.

#include "layers/kinds/activations.h"
#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class ActivationLayer final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Activation";

  explicit ActivationLayer(ConfigReader& reader)
      : Layer(reader), activation_(read_activation_key(reader)) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    return {activation_.apply(context, inputs[0])};
  }

  bool elementwise() const override { return !activation_.along_last(); }

  bool penalizes_activity() const override {
    return Layer::penalizes_activity() || activation_.penalizes_activity();
  }

 private:
  Activation activation_;
};

}  // namespace

std::shared_ptr<const Layer> make_activation(const Config& config) {
  return construct_layer<ActivationLayer>(config);
}

}  // namespace plimsoll::layers
