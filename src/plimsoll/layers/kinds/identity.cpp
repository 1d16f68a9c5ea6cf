// Identity: what comes in.

#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class Identity final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Identity";

  explicit Identity(ConfigReader& reader) : Layer(reader) {}

  std::vector<ValueId> call(LayerContext&, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    return {inputs[0]};
  }

  bool elementwise() const override { return true; }
};

}  // namespace

std::shared_ptr<const Layer> make_identity(const Config& config) {
  return construct_layer<Identity>(config);
}

}  // namespace plimsoll::layers
