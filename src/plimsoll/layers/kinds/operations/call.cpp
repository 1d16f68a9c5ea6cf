// What an operator's call says, checked, and the small graphs that operators are made of.

#include <algorithm>

#include "base/format.h"
#include "layers/kinds/operation_call.h"
#include "layers/model/call_arguments.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

constexpr std::string_view kNotMixed = "Samples are not mixed.";
const Config kNone;

}  // namespace

const Config& OperationCall::option(std::string_view key) const {
  const Config* value = options_.is_object() ? options_.find(key) : nullptr;
  return value == nullptr ? kNone : *value;
}

bool OperationCall::flag(std::string_view key) const {
  const Config& value = option(key);
  return value.is_bool() && value.as_bool();
}

int64_t OperationCall::integer(std::string_view key, int64_t least, int64_t most) const {
  const Config& value = option(key);
  if (!value.is_int() || value.as_int() < least || value.as_int() > most) {
    refuse(fmt::format("{} as an integer from {} to {}", key, least, most), value.to_json());
  }
  return value.as_int();
}

int64_t OperationCall::integer(std::string_view key, int64_t least, int64_t most,
                               int64_t fallback) const {
  return option(key).is_null() ? fallback : integer(key, least, most);
}

double OperationCall::number(std::string_view key, double fallback) const {
  const Config& value = option(key);
  if (value.is_null()) return fallback;
  if (!value.is_number()) refuse(std::string(key) + " as a number", value.to_json());
  return value.as_double();
}

std::vector<int64_t> OperationCall::integers(std::string_view key) const {
  const Config& value = option(key);
  if (value.is_null()) return {};
  if (value.is_int()) return {value.as_int()};
  std::vector<int64_t> numbers;
  if (!value.is_array()) refuse(std::string(key) + " as integers", value.to_json());
  for (const Config& one : value.as_array()) {
    if (!one.is_int()) refuse(std::string(key) + " as integers", value.to_json());
    numbers.push_back(one.as_int());
  }
  return numbers;
}

const Config& OperationCall::argument(size_t position, std::string_view name) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (names_[i].empty() ? i == position : names_[i] == name) return arguments_[i];
  }
  return kNone;
}

ValueId OperationCall::only() const {
  if (inputs_.size() != 1) refuse("one input", std::to_string(inputs_.size()));
  if (!context_.type(inputs_[0]).shape.has_batch()) refuse("a batch in front", "none");
  return inputs_[0];
}

ValueId OperationCall::only_real() const { return as_real(context_, only()); }

Operand OperationCall::operand(const Config& argument, DType dtype) const {
  const int64_t index = tensor_index(argument);
  if (index < 0) return constant_operand(context_, argument, dtype);
  if (index >= static_cast<int64_t>(inputs_.size())) refuse("an input", "none");
  return {inputs_[static_cast<size_t>(index)], std::nullopt};
}

ValueId OperationCall::real(const Config& argument) const {
  return as_real(context_, as_value(context_, operand(argument), DType::kFloat32));
}

std::vector<ValueId> OperationCall::list() const {
  const Config& given = argument(0);
  if (!given.is_array() || given.as_array().empty()) {
    refuse("a list of values", given.to_json().substr(0, 80));
  }
  std::vector<ValueId> values;
  for (const Config& one : given.as_array()) {
    const int64_t index = tensor_index(one);
    if (index < 0 || index >= static_cast<int64_t>(inputs_.size())) {
      refuse("values of the model in the list", one.to_json().substr(0, 80));
    }
    values.push_back(inputs_[static_cast<size_t>(index)]);
  }
  return values;
}

int64_t OperationCall::axis(int64_t given, int rank) const {
  const int64_t counted = given < 0 ? given + rank : given;
  if (counted < 1 || counted >= rank) {
    refuse(fmt::format("an axis after the batch of a value of rank {}", rank),
           std::to_string(given), kNotMixed);
  }
  return counted;
}

int64_t OperationCall::axis(const Config& given, int rank) const {
  if (!given.is_int()) refuse("one axis", given.to_json(), kNotMixed);
  return axis(given.as_int(), rank);
}

std::vector<int64_t> OperationCall::axes(int rank, std::string_view key) const {
  std::vector<int64_t> counted;
  for (int64_t one : integers(key)) counted.push_back(axis(one, rank));
  std::ranges::sort(counted);
  if (counted.empty() || std::ranges::adjacent_find(counted) != counted.end()) {
    refuse("axes after the batch, each once", option(key).to_json(),
           "Samples are not mixed: name the axes to fold.");
  }
  return counted;
}

std::vector<int64_t> dims_of(const LayerContext& context, ValueId x) {
  return ops::sample_dims(context.type(x).shape);
}

int64_t product_of(const LayerContext& context, std::span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || (dim > 0 && product > kMostElements / dim)) {
      context.refuse(fmt::format("at most {} elements in a sample", kMostElements), "more",
                     "Check the sizes.");
    }
    product *= dim;
  }
  return product;
}

ValueId as_dtype(LayerContext& context, ValueId x, DType dtype) {
  if (context.type(x).dtype == dtype) return x;
  return context.emit("cast", {x}, {{"dtype", std::string(to_string(dtype))}});
}

ValueId as_real(LayerContext& context, ValueId x) {
  return is_floating(context.type(x).dtype) ? x : as_dtype(context, x, DType::kFloat32);
}

ValueId reshaped(LayerContext& context, ValueId x, std::vector<int64_t> dims) {
  product_of(context, dims);
  if (dims_of(context, x) == dims) return x;
  return context.emit("reshape", {x}, {{"shape", std::move(dims)}});
}

ValueId permuted(LayerContext& context, ValueId x, const std::vector<int64_t>& order) {
  if (std::ranges::is_sorted(order)) return x;
  return context.emit("transpose", {x}, {{"permutation", order}});
}

ValueId axis_moved(LayerContext& context, ValueId x, int64_t from, int64_t to) {
  std::vector<int64_t> order;
  const int rank = context.type(x).shape.rank();
  for (int64_t d = 1; d < rank; ++d) {
    if (d != from) order.push_back(d);
  }
  order.insert(order.begin() + (to - 1), from);
  return permuted(context, x, order);
}

ValueId sliced(LayerContext& context, ValueId x, int64_t axis, int64_t begin, int64_t count) {
  const Shape shape = context.type(x).shape;
  if (begin == 0 && count == shape[static_cast<int>(axis)].count) return x;
  return context.emit("slice", {x}, {{"axis", axis}, {"begin", begin}, {"count", count}});
}

// Runs of neighbours are sliced; where there are many, all places are gathered.
ValueId taken(LayerContext& context, ValueId x, int64_t axis, std::span<const int64_t> places) {
  constexpr size_t kMostSlices = 64;
  std::vector<std::pair<int64_t, int64_t>> runs;  // begin, count
  for (int64_t place : places) {
    if (!runs.empty() && runs.back().first + runs.back().second == place) {
      ++runs.back().second;
    } else {
      runs.emplace_back(place, 1);
    }
  }
  if (runs.size() <= kMostSlices) {
    std::vector<ValueId> parts;
    parts.reserve(runs.size());
    for (const auto& [begin, count] : runs) parts.push_back(sliced(context, x, axis, begin, count));
    return parts.size() == 1 ? parts[0] : context.emit("concat", parts, {{"axis", axis}});
  }
  const int64_t last = context.type(x).shape.rank() - 1;
  const DType own = context.type(x).dtype;
  if (own == DType::kInt64) context.refuse("int32 or floats to gather from", "int64", "Cast them.");
  if (!is_floating(own)) x = as_dtype(context, x, DType::kInt32);
  x = axis_moved(context, x, axis, last);
  std::vector<int64_t> dims = dims_of(context, x);
  dims.back() = static_cast<int64_t>(places.size());
  product_of(context, dims);
  const ValueId numbers =
      context.constant({DType::kInt32, {dims.back()}, {places.begin(), places.end()}});
  const ValueId all = context.emit("broadcast", {numbers}, {{"shape", dims}, {"batched", true}});
  const ValueId y = context.emit("gather_last", {x, all});
  return axis_moved(context, as_dtype(context, y, own), last, axis);
}

ValueId padded(LayerContext& context, ValueId x, int64_t axis, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return x;
  return context.emit("pad_axis", {x}, {{"axis", axis}, {"before", before}, {"after", after}});
}

ValueId scaled(LayerContext& context, ValueId x, double scale, double offset) {
  return context.emit("scale_shift", {x}, {{"scale", scale}, {"offset", offset}});
}

ValueId function_of(LayerContext& context, std::string_view kind, ValueId x) {
  return context.emit("unary", {x}, {{"kind", std::string(kind)}});
}

ValueId combined(LayerContext& context, std::string_view op, ValueId a, ValueId b) {
  broadcast_together(context, a, b);
  return context.emit(op, {a, b});
}

ValueId clamped(LayerContext& context, ValueId x, double least, double most) {
  const auto number = [&](double bound) {
    return as_value(context, {ValueId(), bound}, DType::kFloat32);
  };
  x = combined(context, "minimum", x, number(most));
  return combined(context, "maximum", x, number(least));
}

ValueId compared(LayerContext& context, ValueId x, std::string_view kind, double number) {
  return context.emit("compare", {x}, {{"kind", std::string(kind)}, {"value", number}});
}

ValueId chosen(LayerContext& context, ValueId condition, ValueId a, ValueId b) {
  broadcast_together(context, a, b);
  stretch_together(context, condition, a);
  stretch_together(context, b, a);
  return context.emit("select", {a, b, condition});
}

ValueId filled_like(LayerContext& context, ValueId x, double number) {
  const ValueId one = context.emit(
      "constant", {}, {{"shape", std::vector<int64_t>{}}, {"value", number}, {"dtype", "float32"}});
  return over_batch(context, one, context.type(x).shape);
}

ValueId positions_along(LayerContext& context, ValueId x, int64_t axis) {
  const ValueId ones = filled_like(context, x, 1);
  return scaled(context, context.emit("running_sum", {ones}, {{"axis", axis}}), 1, -1);
}

ValueId is_nan(LayerContext& context, ValueId x) {
  return context.emit("compare", {x, x}, {{"kind", "not_equal"}});
}

ValueId counted_below(LayerContext& context, ValueId x, std::span<const double> numbers,
                      bool or_at) {
  constexpr size_t kMostNumbers = 65536;
  if (numbers.empty() || numbers.size() > kMostNumbers) {
    context.refuse(fmt::format("1 to {} bounds", kMostNumbers), std::to_string(numbers.size()), "");
  }
  const std::vector<int64_t> dims = dims_of(context, x);
  std::vector<int64_t> narrow = dims;
  narrow.push_back(1);
  const ConstantData data{
      DType::kFloat32, {static_cast<int64_t>(numbers.size())}, {numbers.begin(), numbers.end()}};
  ValueId a = reshaped(context, x, narrow);
  ValueId b = context.constant(data);
  broadcast_together(context, a, b);
  // TensorFlow searches for the first number that lies above (not below) the element: a NaN is past
  // all of them (none).
  ValueId above = context.emit("compare", {a, b}, {{"kind", or_at ? "less" : "greater"}});
  if (or_at) above = context.emit("logical", {above}, {{"kind", "not"}});
  const ValueId count = context.emit("sum_to", {as_dtype(context, above, DType::kFloat32)},
                                     {{"shape", narrow}, {"batched", true}});
  return as_dtype(context, reshaped(context, count, dims), DType::kInt32);
}

ValueId marked_classes(LayerContext& context, ValueId numbers, int64_t classes) {
  std::vector<int64_t> dims = dims_of(context, numbers);
  dims.push_back(1);
  // Keras casts classes to integers: a fraction is cut off.
  if (is_floating(context.type(numbers).dtype)) {
    numbers = as_dtype(context, numbers, DType::kInt32);
  }
  ValueId column = as_dtype(context, reshaped(context, numbers, dims), DType::kFloat32);
  dims.back() = classes;
  product_of(context, dims);
  column = context.emit("broadcast", {column}, {{"shape", dims}});
  const ValueId places = positions_along(context, column, static_cast<int64_t>(dims.size()));
  return context.emit("compare", {column, places}, {{"kind", "equal"}});
}

}  // namespace plimsoll::layers
