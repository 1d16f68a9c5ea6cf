// Dropout: in training, a part of the elements becomes zero and the others grow to make up for it.

#include "layers/all_layers.h"

namespace plimsoll::layers {
namespace {

class Dropout final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Dropout";

  explicit Dropout(ConfigReader& reader) : Layer(reader) {
    rate_ = reader.number("rate", 0.0);
    if (!(rate_ >= 0 && rate_ < 1)) {
      reader.refuse("rate", "0 to below 1", reader.value("rate", 0.0).to_json());
    }
    const Config seed = reader.value("seed", Config());
    if (!seed.is_null() && !seed.is_int()) {
      reader.refuse("seed", "an integer or null", seed.to_json());
    }
    reader.refuse_unless_empty("noise_shape", "Drop single elements.");
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    if (!context.training() || rate_ == 0) return {inputs[0]};
    return {context.emit("dropout", {inputs[0]}, {{"rate", rate_}, {"site", context.call_site()}})};
  }

  bool elementwise() const override { return true; }

 private:
  double rate_ = 0;
};

}  // namespace

std::shared_ptr<const Layer> make_dropout(const Config& config) {
  return construct_layer<Dropout>(config);
}

}  // namespace plimsoll::layers
