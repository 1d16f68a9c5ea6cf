// Concatenate: values side by side along one axis.

#include "base/format.h"
#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class Concatenate final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Concatenate";

  explicit Concatenate(ConfigReader& reader) : Layer(reader) {
    const Config axis = reader.value("axis", -1);
    if (!axis.is_int()) reader.refuse("axis", "an integer", axis.to_json());
    axis_ = axis.as_int();
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.empty()) refuse("one or more inputs", "none", "Call it on a list.");
    const Shape first = context.type(inputs[0]).shape;
    const int64_t axis = axis_ < 0 ? axis_ + first.rank() : axis_;
    if (axis < 1 || axis >= first.rank()) {
      refuse("an axis after the batch", fmt::format("{} on {}", axis_, to_string(first)),
             "Samples are not joined along the batch.");
    }
    for (ValueId input : inputs) {
      Shape other = context.type(input).shape;
      const bool same_rank = other.rank() == first.rank();
      if (same_rank) other[static_cast<int>(axis)] = first[static_cast<int>(axis)];
      if (!same_rank || other != first) {
        refuse(fmt::format("inputs that differ along axis {} only", axis),
               fmt::format("{} and {}", to_string(first), to_string(context.type(input).shape)),
               "Pad or crop them first.");
      }
    }
    set_masks(context, inputs, static_cast<int>(axis));
    if (inputs.size() == 1) return {context.without_logits(inputs[0])};
    return {context.emit("concat", {inputs.begin(), inputs.end()}, {{"axis", axis}})};
  }

 private:
  // As keras.layers.Concatenate.compute_mask: masks are joined as the values are, and a position
  // counts where any of its elements does. All of a value without a mask count.
  void set_masks(LayerContext& context, std::span<const ValueId> inputs, int axis) const {
    size_t masked = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId mask = context.mask(i);
      if (!mask.valid()) continue;
      ++masked;
      if (context.type(mask).shape.rank() + 1 != context.type(inputs[i]).shape.rank()) {
        refuse("a mask of all but the last axis", to_string(context.type(mask).shape),
               "End the mask before the layer, by a GlobalAveragePooling1D or a Reshape.");
      }
    }
    if (masked == 0) return;
    if (axis + 1 < context.type(inputs[0]).shape.rank()) {
      std::vector<ValueId> masks;
      for (size_t i = 0; i < inputs.size(); ++i) {
        masks.push_back(context.mask(i).valid() ? context.mask(i) : everywhere(context, inputs[i]));
      }
      context.set_mask(0, context.emit("concat", masks, {{"axis", axis}}));
    } else if (masked == inputs.size()) {
      ValueId joined = context.mask(0);
      for (size_t i = 1; i < inputs.size(); ++i) {
        joined = context.emit("logical", {joined, context.mask(i)}, {{"kind", "or"}});
      }
      context.set_mask(0, joined);
    }
  }

  // True for each position of x.
  static ValueId everywhere(LayerContext& context, ValueId x) {
    const ValueId same = context.emit("compare", {x, x}, {{"kind", "equal"}});
    return context.emit("any_last", {same});
  }

  int64_t axis_ = -1;
};

}  // namespace

std::shared_ptr<const Layer> make_concatenate(const Config& config) {
  return construct_layer<Concatenate>(config);
}

}  // namespace plimsoll::layers
