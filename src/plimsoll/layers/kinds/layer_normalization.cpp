// LayerNormalization: each sample's trailing dimensions to mean 0 and variance 1, then scaled and
// shifted by trained numbers.

#include <algorithm>

#include "layers/kinds/all_layers.h"
#include "layers/kinds/scale_shift.h"

namespace plimsoll::layers {
namespace {

class LayerNormalization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "LayerNormalization";

  explicit LayerNormalization(ConfigReader& reader) : Layer(reader) {
    read_axes(reader);
    epsilon_ = read_epsilon(reader);
    reader.refuse_unless_empty("rms_scaling", "Train the layer with its mean taken off.");
    scale_shift_ = ScaleShift::read(reader);
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() < 2) return {};
    const Shape& shape = inputs[0].shape;
    std::vector<int64_t> dims;
    for (int64_t d = shape.rank() - count_axes(shape); d < shape.rank(); ++d) {
      dims.push_back(shape[static_cast<int>(d)].count);
    }
    return scale_shift_.weights(dims);
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
  void read_axes(ConfigReader& reader) {
    const Config given = reader.value("axis", Config::Array{-1});
    const Config::Array list = given.is_array() ? given.as_array() : Config::Array{given};
    for (const Config& axis : list) {
      if (!axis.is_int()) reader.refuse("axis", "an integer or a list of them", given.to_json());
      axes_.push_back(axis.as_int());
    }
    if (axes_.empty()) reader.refuse("axis", "one axis or more", given.to_json());
    reader.complete("axis", list);
  }

  // How many trailing dimensions the axes are.
  int64_t count_axes(const Shape& shape) const {
    std::vector<int64_t> counted;
    for (int64_t axis : axes_) counted.push_back(axis < 0 ? axis + shape.rank() : axis);
    std::ranges::sort(counted);
    const auto count = static_cast<int64_t>(counted.size());
    for (int64_t i = 0; i < count; ++i) {
      if (counted[static_cast<size_t>(i)] == shape.rank() - count + i) continue;
      refuse("the last axes of " + to_string(shape), Config(as_config()).to_json(),
             "Permute the axes to normalize to the end first.");
    }
    if (count >= shape.rank()) {
      refuse("axes behind the batch of " + to_string(shape), as_config().to_json(), "");
    }
    return count;
  }

  Config as_config() const {
    Config::Array list;
    for (int64_t axis : axes_) list.emplace_back(axis);
    return list;
  }

  std::vector<int64_t> axes_;
  double epsilon_ = 0;
  ScaleShift scale_shift_;
};

}  // namespace

std::shared_ptr<const Layer> make_layer_normalization(const Config& config) {
  return construct_layer<LayerNormalization>(config);
}

}  // namespace plimsoll::layers
