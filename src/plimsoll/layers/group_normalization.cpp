// GroupNormalization: each group of channels of a sample to mean 0 and variance 1, then each
// channel scaled and shifted.

#include "layers/all_layers.h"
#include "layers/initializers.h"
#include "layers/regularizers.h"

namespace plimsoll::layers {
namespace {

class GroupNormalization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "GroupNormalization";

  explicit GroupNormalization(ConfigReader& reader) : Layer(reader) {
    groups_ = reader.integer("groups", 32, -1);
    if (groups_ == 0) reader.refuse("groups", "-1, or 1 or more", "0");
    axis_ = reader.integer("axis", -1, -100);
    epsilon_ = reader.number("epsilon", 1e-3);
    if (!(epsilon_ >= 0)) reader.refuse("epsilon", "0 or more", std::to_string(epsilon_));
    center_ = reader.flag("center", true);
    scale_ = reader.flag("scale", true);
    beta_initializer_ = read_initializer(reader, "beta_initializer", "zeros");
    gamma_initializer_ = read_initializer(reader, "gamma_initializer", "ones");
    beta_regularizer_ = read_regularizer(reader, "beta_regularizer");
    gamma_regularizer_ = read_regularizer(reader, "gamma_regularizer");
    reader.refuse_unless_empty("beta_constraint", "Regularize beta instead.");
    reader.refuse_unless_empty("gamma_constraint", "Regularize gamma instead.");
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() < 2) return {};
    const Shape& shape = inputs[0].shape;
    const std::vector<int64_t> channels = {shape[shape.rank() - 1].count};
    std::vector<Weight> weights;
    if (scale_) {
      weights.push_back({"gamma", channels, gamma_initializer_, gamma_regularizer_, true});
    }
    if (center_) weights.push_back({"beta", channels, beta_initializer_, beta_regularizer_, true});
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    if (axis_ != -1 && axis_ != shape.rank() - 1) {
      refuse("axis=-1, the channels", std::to_string(axis_) + " on " + to_string(shape),
             "Put the channels last.");
    }
    const int64_t channels = shape[shape.rank() - 1].count;
    const int64_t groups = groups_ == -1 ? channels : groups_;
    if (channels % groups != 0) {
      refuse("channels that are a multiple of groups=" + std::to_string(groups),
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
    if (scale_) {
      const ValueId gamma = context.emit("broadcast", {context.weight("gamma")},
                                         {{"shape", dims}, {"batched", true}});
      y = context.emit("multiply", {y, gamma});
    }
    if (center_) y = context.emit("bias_add", {y, context.weight("beta")});
    return {y};
  }

 private:
  int64_t groups_ = 32;
  int64_t axis_ = -1;
  double epsilon_ = 0;
  bool center_ = true;
  bool scale_ = true;
  Config beta_initializer_;
  Config gamma_initializer_;
  Config beta_regularizer_;
  Config gamma_regularizer_;
};

}  // namespace

std::shared_ptr<const Layer> make_group_normalization(const Config& config) {
  return construct_layer<GroupNormalization>(config);
}

}  // namespace plimsoll::layers
