// LayerNormalization: each sample's trailing dimensions to mean 0 and variance 1, then scaled and
// shifted by trained numbers.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/scale_shift.h"
#include "layers/kinds/trailing_axes.h"

namespace plimsoll::layers {
namespace {

class LayerNormalization final : public OverTrailingAxes {
 public:
  static constexpr std::string_view kClassName = "LayerNormalization";

  explicit LayerNormalization(ConfigReader& reader) : OverTrailingAxes(reader) {
    epsilon_ = read_epsilon(reader);
    reader.refuse_unless_empty("rms_scaling", "Train the layer with its mean taken off.");
    scale_shift_ = ScaleShift::read(reader);
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    const std::vector<int64_t> dims = trailing_dims(inputs);
    return dims.empty() ? std::vector<Weight>() : scale_shift_.weights(dims);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    std::vector<ValueId> operands = {inputs[0]};
    if (scale_shift_.scale) operands.push_back(context.weight("gamma"));
    if (scale_shift_.center) operands.push_back(context.weight("beta"));
    return {context.emit_all("layer_norm", operands,
                             {{"dims", count_axes(shape)},
                              {"epsilon", epsilon_},
                              {"scale", scale_shift_.scale},
                              {"center", scale_shift_.center}})[0]};
  }

 private:
  double epsilon_ = 0;
  ScaleShift scale_shift_;
};

}  // namespace

std::shared_ptr<const Layer> make_layer_normalization(const Config& config) {
  return construct_layer<LayerNormalization>(config);
}

}  // namespace plimsoll::layers
