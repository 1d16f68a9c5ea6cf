// Add, Subtract, Multiply, Average, Maximum, Minimum: two or more values, element by element.
//
// As in Keras, values of fewer dimensions get ones behind the batch, and dimensions of extent 1
// repeat: (batch, 1, 1, channels) scales the channels of (batch, height, width, channels).

#include <algorithm>

#include "layers/all_layers.h"
#include "layers/operation.h"

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
    int rank = 0;
    for (ValueId input : inputs) rank = std::max(rank, context.type(input).shape.rank());
    ValueId result = with_rank(context, inputs[0], rank);
    for (ValueId input : inputs.subspan(1)) {
      ValueId other = with_rank(context, input, rank);
      broadcast_together(context, result, other);
      result = context.emit(kOp, {result, other});
    }
    if (kKind != MergeKind::kAverage) return {result};
    return {context.emit("scale_shift", {result},
                         {{"scale", 1.0 / static_cast<double>(inputs.size())}, {"offset", 0.0}})};
  }

  bool elementwise() const override { return true; }

 private:
  // The value with ones behind the batch up to that rank.
  static ValueId with_rank(LayerContext& context, ValueId x, int rank) {
    const Shape shape = context.type(x).shape;
    if (shape.rank() == rank || !shape.has_batch()) return x;
    std::vector<int64_t> dims = shape.at(1);
    dims.erase(dims.begin());
    dims.insert(dims.begin(), static_cast<size_t>(rank - shape.rank()), 1);
    return context.emit("reshape", {x}, {{"shape", dims}});
  }

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
