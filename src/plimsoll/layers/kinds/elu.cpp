// ELU: x above zero, alpha (eˣ − 1) below.

#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class ELU final : public Layer {
 public:
  static constexpr std::string_view kClassName = "ELU";

  explicit ELU(ConfigReader& reader) : Layer(reader), alpha_(reader.number("alpha", 1.0)) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    return {context.emit("activation", {inputs[0]}, {{"kind", "elu"}, {"alpha", alpha_}})};
  }

  bool elementwise() const override { return true; }

 private:
  double alpha_;
};

}  // namespace

std::shared_ptr<const Layer> make_elu(const Config& config) { return construct_layer<ELU>(config); }

}  // namespace plimsoll::layers
