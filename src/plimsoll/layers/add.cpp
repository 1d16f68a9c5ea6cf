// Add: the sum of two or more values of one shape.

#include "layers/all_layers.h"

namespace plimsoll::layers {
namespace {

class Add final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Add";

  explicit Add(ConfigReader& reader) : Layer(reader) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() < 2) {
      refuse("two or more inputs", std::to_string(inputs.size()), "Call it on a list.");
    }
    const ValueType type = context.type(inputs[0]);
    ValueId sum = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) {
      const ValueType other = context.type(inputs[i]);
      if (other != type) {
        refuse("inputs of one shape", to_string(type.shape) + " and " + to_string(other.shape),
               "Bring them to one shape first; nothing is repeated to fit.");
      }
      sum = context.emit("add", {sum, inputs[i]});
    }
    return {sum};
  }
};

}  // namespace

std::shared_ptr<const Layer> make_add(const Config& config) { return construct_layer<Add>(config); }

}  // namespace plimsoll::layers
