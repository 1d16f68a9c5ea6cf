// Masking: steps whose elements all are one value do not count.

#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class Masking final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Masking";

  explicit Masking(ConfigReader& reader) : Layer(reader) {
    value_ = reader.number("mask_value", 0.0);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    const ValueId differs =
        context.emit("compare", {inputs[0]}, {{"kind", "not_equal"}, {"value", value_}});
    const ValueId mask = context.emit("any_last", {differs});
    context.set_mask(0, mask);
    return {context.emit("apply_mask", {inputs[0], mask})};
  }

 private:
  double value_ = 0;
};

}  // namespace

std::shared_ptr<const Layer> make_masking(const Config& config) {
  return construct_layer<Masking>(config);
}

}  // namespace plimsoll::layers
