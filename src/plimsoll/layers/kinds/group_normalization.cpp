// GroupNormalization: each group of channels of a sample to mean 0 and variance 1, then each
// channel scaled and shifted.

#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation.h"
#include "layers/kinds/scale_shift.h"

namespace plimsoll::layers {
namespace {

class GroupNormalization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "GroupNormalization";

  explicit GroupNormalization(ConfigReader& reader) : Layer(reader) {
    groups_ = reader.integer("groups", 32, -1);
    if (groups_ == 0) reader.refuse("groups", "-1, or 1 or more", "0");
    axis_ = reader.integer("axis", -1, -100);
    epsilon_ = read_epsilon(reader);
    scale_shift_ = ScaleShift::read(reader);
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() < 2) return {};
    const Shape& shape = inputs[0].shape;
    const std::vector<int64_t> channels = {shape[shape.rank() - 1].count};
    return scale_shift_.weights(channels);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    if (axis_ != -1 && axis_ != shape.rank() - 1) {
      refuse("axis=-1, the channels", fmt::format("{} on {}", axis_, to_string(shape)),
             "Put the channels last.");
    }
    const int64_t channels = shape[shape.rank() - 1].count;
    const int64_t groups = groups_ == -1 ? channels : groups_;
    if (channels % groups != 0) {
      refuse(fmt::format("channels that are a multiple of groups={}", groups),
             std::to_string(channels), "Change groups.");
    }
    const int64_t places = shape.elements_per_sample() / shape[0].count / channels;
    const int64_t each = channels / groups;
    const std::vector<int64_t> swap = {2, 1, 3};
    ValueId y = context.emit("reshape", {inputs[0]},
                             {{"shape", std::vector<int64_t>{places, groups, each}}});
    y = context.emit("transpose", {y}, {{"permutation", swap}});
    y = context.emit_all(
        "layer_norm", {y},
        {{"dims", 2}, {"epsilon", epsilon_}, {"scale", false}, {"center", false}})[0];
    y = context.emit("transpose", {y}, {{"permutation", swap}});
    std::vector<int64_t> dims = shape.at(1);
    dims.erase(dims.begin());
    y = context.emit("reshape", {y}, {{"shape", dims}});
    if (scale_shift_.scale) {
      const ValueId gamma = over_batch(context, context.weight("gamma"), shape);
      y = context.emit("multiply", {y, gamma});
    }
    if (scale_shift_.center) y = context.emit("bias_add", {y, context.weight("beta")});
    return {y};
  }

 private:
  int64_t groups_ = 32;
  int64_t axis_ = -1;
  double epsilon_ = 0;
  ScaleShift scale_shift_;
};

}  // namespace

std::shared_ptr<const Layer> make_group_normalization(const Config& config) {
  return construct_layer<GroupNormalization>(config);
}

}  // namespace plimsoll::layers
