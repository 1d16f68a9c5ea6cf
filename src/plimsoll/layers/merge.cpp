// Add, Subtract, Multiply, Average, Maximum, Minimum: two or more values, element by element.

#include "layers/all_layers.h"

namespace plimsoll::layers {
namespace {

enum class MergeKind : uint8_t { kAdd, kAverage, kMaximum, kMinimum, kMultiply, kSubtract };

template <MergeKind kKind>
class Merge final : public Layer {
 public:
  static constexpr std::string_view kClassName = kKind == MergeKind::kAdd        ? "Add"
                                                 : kKind == MergeKind::kAverage  ? "Average"
                                                 : kKind == MergeKind::kMaximum  ? "Maximum"
                                                 : kKind == MergeKind::kMinimum  ? "Minimum"
                                                 : kKind == MergeKind::kMultiply ? "Multiply"
                                                                                 : "Subtract";

  explicit Merge(ConfigReader& reader) : Layer(reader) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const bool two = kKind == MergeKind::kSubtract;
    if (inputs.size() < 2 || (two && inputs.size() > 2)) {
      refuse(two ? "two inputs" : "two or more inputs", std::to_string(inputs.size()),
             "Call it on a list.");
    }
    const ValueType type = context.type(inputs[0]);
    ValueId result = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) {
      const ValueType other = context.type(inputs[i]);
      if (other != type) {
        refuse("inputs of one shape", to_string(type.shape) + " and " + to_string(other.shape),
               "Bring them to one shape first; nothing is repeated to fit.");
      }
      result = context.emit(kOp, {result, inputs[i]});
    }
    if (kKind != MergeKind::kAverage) return {result};
    return {context.emit("scale_shift", {result},
                         {{"scale", 1.0 / static_cast<double>(inputs.size())}, {"offset", 0.0}})};
  }

  bool elementwise() const override { return true; }

 private:
  static constexpr std::string_view kOp = kKind == MergeKind::kMaximum    ? "maximum"
                                          : kKind == MergeKind::kMinimum  ? "minimum"
                                          : kKind == MergeKind::kMultiply ? "multiply"
                                          : kKind == MergeKind::kSubtract ? "subtract"
                                                                          : "add";
};

}  // namespace

std::shared_ptr<const Layer> make_add(const Config& config) {
  return construct_layer<Merge<MergeKind::kAdd>>(config);
}
std::shared_ptr<const Layer> make_average(const Config& config) {
  return construct_layer<Merge<MergeKind::kAverage>>(config);
}
std::shared_ptr<const Layer> make_maximum(const Config& config) {
  return construct_layer<Merge<MergeKind::kMaximum>>(config);
}
std::shared_ptr<const Layer> make_minimum(const Config& config) {
  return construct_layer<Merge<MergeKind::kMinimum>>(config);
}
std::shared_ptr<const Layer> make_multiply(const Config& config) {
  return construct_layer<Merge<MergeKind::kMultiply>>(config);
}
std::shared_ptr<const Layer> make_subtract(const Config& config) {
  return construct_layer<Merge<MergeKind::kSubtract>>(config);
}

}  // namespace plimsoll::layers
