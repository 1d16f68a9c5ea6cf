// Add, Subtract, Multiply, Average, Maximum, Minimum: two or more values, element by element.
//
// As in Keras, values of fewer dimensions get ones after the batch, and dimensions of extent 1
// repeat: (batch, 1, 1, channels) scales the channels of (batch, height, width, channels).
//
// Masked places do not take part in a product, a maximum or a minimum: there a factor counts as 1,
// and of two extremes the other one is taken. A product is 0 where no factor counts.

#include <algorithm>

#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation.h"
#include "ops/rules.h"

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
    std::vector<Part> parts = parts_of(context, inputs);
    const ValueId result = kKind == MergeKind::kMultiply ? product(context, parts)
                           : kExtremum                   ? extreme(context, parts)
                                                         : joined(context, parts);
    if (kKind != MergeKind::kAverage) return {result};
    return {context.emit("scale_shift", {result},
                         {{"scale", 1.0 / static_cast<double>(inputs.size())}, {"offset", 0.0}})};
  }

  bool elementwise() const override { return true; }

 private:
  static constexpr bool kExtremum = kKind == MergeKind::kMaximum || kKind == MergeKind::kMinimum;

  // An input, and which of its places count; the mask is invalid where all do, and where the layer
  // does not look.
  struct Part {
    ValueId value{};
    ValueId mask{};
  };

  std::vector<Part> parts_of(LayerContext& context, std::span<const ValueId> inputs) const {
    int rank = 0;
    for (ValueId input : inputs) rank = std::max(rank, context.type(input).shape.rank());
    std::vector<Part> parts;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Part part{with_rank(context, inputs[i], rank), {}};
      const bool looks = kExtremum || kKind == MergeKind::kMultiply;
      // A value that was given another shape has lost its mask.
      if (looks && part.value == inputs[i]) part.mask = context.mask(i);
      if (part.mask.valid() && context.type(part.mask).shape.rank() != rank - 1) {
        refuse("a mask of all but the last axis", to_string(context.type(part.mask).shape),
               "End the mask before the layer, by a Reshape.");
      }
      parts.push_back(part);
    }
    return parts;
  }

  static ValueId joined(LayerContext& context, std::span<const Part> parts) {
    ValueId result = parts[0].value;
    for (const Part& part : parts.subspan(1)) {
      ValueId other = part.value;
      broadcast_together(context, result, other);
      result = context.emit(kOp, {result, other});
    }
    return result;
  }

  // keras.layers.Multiply._merge_function
  static ValueId product(LayerContext& context, std::vector<Part>& parts) {
    bool all_masked = true;
    for (Part& part : parts) {
      all_masked = all_masked && part.mask.valid();
      if (!part.mask.valid()) continue;
      ValueId one = context.emit("constant", {},
                                 {{"shape", std::vector<int64_t>{}},
                                  {"value", 1.0},
                                  {"dtype", std::string(to_string(DType::kFloat32))}});
      broadcast_together(context, part.value, one);
      part.value = context.emit("select", {part.value, one, part.mask});
    }
    ValueId result = joined(context, parts);
    if (!all_masked) return result;
    ValueId mask = parts[0].mask;
    for (const Part& part : std::span(parts).subspan(1)) {
      mask = context.either_mask(mask, part.mask);
    }
    return context.emit("apply_mask", {result, leading_mask(context, mask, result)});
  }

  // keras.src.layers.merging.base_merge.Merge._apply_merge_op_and_or_mask
  static ValueId extreme(LayerContext& context, std::span<const Part> parts) {
    ValueId result = parts[0].value;
    ValueId mask = parts[0].mask;
    for (const Part& part : parts.subspan(1)) {
      ValueId other = part.value;
      broadcast_together(context, result, other);
      if (part.mask.valid()) {
        other = context.emit("select", {other, result, leading_mask(context, part.mask, result)});
      }
      if (mask.valid()) {
        result = context.emit("select", {result, other, leading_mask(context, mask, result)});
      }
      const bool both = mask.valid() && part.mask.valid();
      mask = both ? context.either_mask(mask, part.mask) : ValueId();
      result = context.emit(kOp, {result, other});
    }
    return result;
  }

  // The mask repeated over all but the value's last axis.
  static ValueId leading_mask(LayerContext& context, ValueId mask, ValueId value) {
    std::vector<int64_t> dims = ops::sample_dims(context.type(value).shape);
    dims.pop_back();
    if (ops::sample_dims(context.type(mask).shape) == dims) return mask;
    return context.emit("broadcast", {mask}, {{"shape", dims}});
  }

  // The value with ones after the batch up to that rank.
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
