// PReLU: x above zero, a trained part of it below, with the parts shared along some axes.

#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/config/regularizers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation.h"

namespace plimsoll::layers {
namespace {

class PReLU final : public Layer {
 public:
  static constexpr std::string_view kClassName = "PReLU";

  explicit PReLU(ConfigReader& reader) : Layer(reader) {
    initializer_ = read_initializer(reader, "alpha_initializer", "zeros");
    regularizer_ = read_regularizer(reader, "alpha_regularizer");
    reader.refuse_unless_empty("alpha_constraint", "Regularize alpha instead.");
    const Config axes = reader.value("shared_axes", Config());
    if (axes.is_null()) return;
    const Config::Array list = axes.is_array() ? axes.as_array() : Config::Array{axes};
    for (const Config& axis : list) {
      if (!axis.is_int() || axis.as_int() < 1) {
        reader.refuse("shared_axes", "axes after the batch", axes.to_json());
      }
      shared_axes_.push_back(axis.as_int());
    }
    reader.complete("shared_axes", list);
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() < 2) return {};
    std::vector<int64_t> shape = inputs[0].shape.at(1);
    shape.erase(shape.begin());
    for (int64_t axis : shared_axes_) {
      if (axis > static_cast<int64_t>(shape.size())) {
        refuse(fmt::format("shared axes of {}", to_string(inputs[0].shape)), std::to_string(axis),
               "");
      }
      shape[static_cast<size_t>(axis) - 1] = 1;
    }
    return {{"alpha", shape, initializer_, regularizer_, true}};
  }

  // Keras's relu(x) − alpha · relu(−x), which says what happens at zero.
  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    const Attributes relu{{"kind", "relu"}};
    const Attributes negate{{"scale", -1.0}, {"offset", 0.0}};
    const ValueId above = context.emit("activation", {inputs[0]}, relu);
    const ValueId below =
        context.emit("activation", {context.emit("scale_shift", {inputs[0]}, negate)}, relu);
    const ValueId part = context.emit("scale_shift", {context.weight("alpha")}, negate);
    const ValueId parts = over_batch(context, part, shape);
    return {context.emit("add", {above, context.emit("multiply", {below, parts})})};
  }

 private:
  Config initializer_;
  Config regularizer_;
  std::vector<int64_t> shared_axes_;
};

}  // namespace

std::shared_ptr<const Layer> make_p_re_lu(const Config& config) {
  return construct_layer<PReLU>(config);
}

}  // namespace plimsoll::layers
