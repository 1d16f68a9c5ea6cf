// Flatten: each sample as one row; channels that come first are moved after the others before.

#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class Flatten final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Flatten";

  explicit Flatten(ConfigReader& reader)
      : Layer(reader), channels_first_(reader.channels_first()) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    const Shape shape = context.type(inputs[0]).shape;
    if (shape.rank() == 2) return {context.without_logits(inputs[0])};
    const ValueId x =
        channels_first_ && shape.rank() > 2 ? context.channels_last(inputs[0]) : inputs[0];
    return {context.emit(
        "reshape", {x},
        {{"shape", std::vector<int64_t>{shape.elements_per_sample() / shape[0].count}}})};
  }

 private:
  bool channels_first_;
};

}  // namespace

std::shared_ptr<const Layer> make_flatten(const Config& config) {
  return construct_layer<Flatten>(config);
}

}  // namespace plimsoll::layers
