// Flatten: each sample as one row.

#include "layers/all_layers.h"

namespace plimsoll::layers {
namespace {

class Flatten final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Flatten";

  explicit Flatten(ConfigReader& reader) : Layer(reader) { reader.data_format(); }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    const Shape shape = context.type(inputs[0]).shape;
    if (shape.rank() == 2) return {inputs[0]};
    return {context.emit(
        "reshape", {inputs[0]},
        {{"shape", std::vector<int64_t>{shape.elements_per_sample() / shape[0].count}}})};
  }
};

}  // namespace

std::shared_ptr<const Layer> make_flatten(const Config& config) {
  return construct_layer<Flatten>(config);
}

}  // namespace plimsoll::layers
