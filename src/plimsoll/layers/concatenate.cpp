// Concatenate: values side by side along one axis.

#include "layers/all_layers.h"

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
      refuse("an axis behind the batch", std::to_string(axis_) + " on " + to_string(first),
             "Samples are not joined along the batch.");
    }
    for (ValueId input : inputs) {
      Shape other = context.type(input).shape;
      const bool same_rank = other.rank() == first.rank();
      if (same_rank) other[static_cast<int>(axis)] = first[static_cast<int>(axis)];
      if (!same_rank || other != first) {
        refuse("inputs that differ along axis " + std::to_string(axis) + " only",
               to_string(first) + " and " + to_string(context.type(input).shape),
               "Pad or crop them first.");
      }
    }
    if (inputs.size() == 1) return {inputs[0]};
    return {context.emit("concat", {inputs.begin(), inputs.end()}, {{"axis", axis}})};
  }

 private:
  int64_t axis_ = -1;
};

}  // namespace

std::shared_ptr<const Layer> make_concatenate(const Config& config) {
  return construct_layer<Concatenate>(config);
}

}  // namespace plimsoll::layers
