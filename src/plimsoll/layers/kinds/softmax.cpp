// Softmax: probabilities along one axis or several; masked places get none.

#include "layers/kinds/softmax.h"

#include <algorithm>

#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation_call.h"
#include "layers/model/masking.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

// What a masked place has for a logit, as in Keras.
constexpr double kMaskedLogit = -1e9;

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order) {
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i] - 1)] = static_cast<int64_t>(i) + 1;
  }
  return back;
}

class Softmax final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Softmax";

  explicit Softmax(ConfigReader& reader) : Layer(reader) {
    const Config axis = reader.value("axis", -1);
    const Config::Array list = axis.is_array() ? axis.as_array() : Config::Array{axis};
    for (const Config& one : list) {
      if (!one.is_int()) reader.refuse("axis", "an integer or a list of them", axis.to_json());
      axes_.push_back(one.as_int());
    }
    if (axes_.empty()) reader.refuse("axis", "an integer or a list of them", axis.to_json());
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    ValueId mask = context.mask(0);
    if (!mask.valid()) return {softmax_along(context, inputs[0], axes_)};
    if (context.type(mask).shape.rank() != shape.rank()) {
      refuse(fmt::format("a mask of the values' own shape {}", to_string(shape)),
             to_string(context.type(mask).shape),
             "Keras takes no mask of steps here either: end it before the layer, or use an "
             "Activation(\"softmax\"), which does not look at it.");
    }
    if (context.type(mask).shape != shape) {
      mask = context.emit("broadcast", {mask}, {{"shape", ops::sample_dims(shape)}});
    }
    ValueId hidden = context.emit("logical", {mask}, {{"kind", "not"}});
    hidden = context.emit("cast", {hidden}, {{"dtype", "float32"}});
    hidden = context.emit("scale_shift", {hidden}, {{"scale", kMaskedLogit}, {"offset", 0.0}});
    const ValueId shown = context.emit("apply_mask", {inputs[0], mask});
    const ValueId y = softmax_along(context, context.emit("add", {shown, hidden}), axes_);
    return {context.emit("apply_mask", {y, mask})};
  }

 private:
  std::vector<int64_t> axes_;
};

}  // namespace

ValueId softmax_along(LayerContext& context, ValueId x, std::span<const int64_t> axes,
                      std::string_view op) {
  const Shape shape = context.type(x).shape;
  const int64_t rank = shape.rank();
  std::vector<int64_t> last;
  for (int64_t axis : axes) {
    const int64_t counted = axis < 0 ? axis + rank : axis;
    if (counted < 1 || counted >= rank || std::ranges::find(last, counted) != last.end()) {
      context.refuse("axes after the batch, each once",
                     fmt::format("{} on {}", axis, to_string(shape)), "Samples are not mixed.");
    }
    last.push_back(counted);
  }
  std::ranges::sort(last);
  const auto ours = static_cast<int64_t>(last.size());
  const bool transposed = last.front() != rank - ours;
  std::vector<int64_t> order;
  for (int64_t d = 1; d < rank; ++d) {
    if (std::ranges::find(last, d) == last.end()) order.push_back(d);
  }
  order.insert(order.end(), last.begin(), last.end());
  ValueId y = transposed ? context.emit("transpose", {x}, {{"permutation", order}}) : x;
  const std::vector<int64_t> dims = ops::sample_dims(context.type(y).shape);
  if (ours > 1) {
    std::vector<int64_t> flat(dims.begin(), dims.end() - ours);
    flat.push_back(1);
    for (int64_t i = rank - 1 - ours; i < rank - 1; ++i)
      flat.back() *= dims[static_cast<size_t>(i)];
    y = context.emit("reshape", {y}, {{"shape", flat}});
  }
  y = context.emit(op, {y}, {{"axis", -1}});
  if (ours > 1) y = context.emit("reshape", {y}, {{"shape", dims}});
  if (transposed) y = context.emit("transpose", {y}, {{"permutation", inverse_of(order)}});
  // Keras keeps the logits whatever the axis.
  if (ours == 1 && op == "softmax") context.remember_logits(y, x, Probabilities::kSoftmax);
  return y;
}

ValueId sparsemax_along(LayerContext& context, ValueId x, int64_t axis) {
  const Shape shape = context.type(x).shape;
  const int64_t last = shape.rank() - 1;
  const int64_t counted = axis < 0 ? axis + shape.rank() : axis;
  if (counted < 1 || counted > last) {
    context.refuse("an axis after the batch", fmt::format("{} on {}", axis, to_string(shape)),
                   "Samples are not mixed.");
  }
  const ValueId z = axis_moved(context, x, counted, last);
  std::vector<int64_t> one = dims_of(context, z);
  one.back() = 1;
  const auto sum = [&](ValueId value) {
    return context.emit("sum_to", {value}, {{"shape", one}, {"batched", true}});
  };
  const ValueId order = context.emit("argsort_last", {z}, {{"descending", true}});
  const ValueId sorted = context.emit("gather_last", {z, order});
  const ValueId sums = context.emit("running_sum", {sorted}, {{"axis", last}});
  const ValueId rank = scaled(context, positions_along(context, sorted, last), 1, 1);
  const ValueId mean = context.emit("divide", {scaled(context, sums, 1, -1), rank});
  const ValueId support = compared(context, context.emit("subtract", {sorted, mean}), "greater", 0);
  const ValueId supported = sum(context.emit("apply_mask", {sums, support}));
  const ValueId count = sum(as_dtype(context, support, DType::kFloat32));
  const ValueId tau = context.emit("divide", {scaled(context, supported, 1, -1), count});
  const ValueId above = combined(context, "subtract", z, tau);
  const ValueId y = context.emit("maximum", {above, filled_like(context, above, 0)});
  return axis_moved(context, y, last, counted);
}

std::shared_ptr<const Layer> make_softmax(const Config& config) {
  return construct_layer<Softmax>(config);
}

}  // namespace plimsoll::layers
