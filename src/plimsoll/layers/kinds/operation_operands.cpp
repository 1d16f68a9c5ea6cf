#include "base/format.h"
#include "layers/kinds/operation.h"

#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

// Dimensions of nested lists by their first entries, and all numbers in order.
void flatten(LayerContext& context, const Config& value, size_t depth, ConstantData& data) {
  if (!value.is_array()) {
    if (!value.is_number() && !value.is_bool()) {
      context.refuse("numbers in a constant", value.to_json(), "Compute it by layers.");
    }
    data.values.push_back(value.is_bool() ? (value.as_bool() ? 1.0 : 0.0) : value.as_double());
    return;
  }
  const Config::Array& list = value.as_array();
  const auto length = static_cast<int64_t>(list.size());
  if (depth == data.shape.size()) data.shape.push_back(length);
  if (data.shape[depth] != length || length == 0) {
    context.refuse("a constant with rows of one length", std::to_string(length), "");
  }
  for (const Config& item : list) flatten(context, item, depth + 1, data);
}

// Per-sample dims that both repeat into.
std::vector<int64_t> common_dims(LayerContext& context, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  for (const Shape* shape : {&a, &b}) {
    for (int d = 0; d < shape->rank(); ++d) {
      if ((*shape)[d].of_batch) continue;
      const auto at = static_cast<size_t>(d + rank - shape->rank());
      const int64_t count = (*shape)[d].count;
      if (dims[at] != 1 && count != 1 && dims[at] != count) {
        context.refuse("shapes that repeat into each other",
                       fmt::format("{} and {}", to_string(a), to_string(b)),
                       "Reshape one of them first.");
      }
      if (count != 1) dims[at] = count;
    }
  }
  return dims;
}

// `rows`: of the batch dimension in one sample; 0: there is none.
ValueId stretch(LayerContext& context, ValueId value, const std::vector<int64_t>& dims,
                int64_t rows) {
  const bool batched = rows > 0;
  Shape shape = context.type(value).shape;
  std::vector<int64_t> per_sample(dims.begin() + (batched ? 1 : 0), dims.end());
  Shape wanted = batched ? batch_shape(per_sample) : fixed_shape(per_sample);
  if (batched) wanted[0] = Dim::batch(rows);
  if (shape == wanted) return value;
  const bool has_batch = shape.has_batch();
  const bool fits = has_batch ? shape.rank() == wanted.rank() : true;
  if (!fits) {
    context.refuse("the batch first in both values",
                   fmt::format("{} for {}", to_string(shape), to_string(wanted)),
                   "Reshape the one of lower rank first.");
  }
  if (batched && !has_batch && shape.rank() == wanted.rank()) {
    // A leading 1 stands for the batch.
    if (shape[0].count != 1) {
      context.refuse("1 in place of the batch", to_string(shape), "Reshape the constant.");
    }
    const std::vector<int64_t> all = shape.at(1);
    value = context.emit("reshape", {value},
                         {{"shape", std::vector<int64_t>(all.begin() + 1, all.end())}});
  }
  if (batched && !shape.has_batch()) return over_batch(context, value, wanted);
  return context.emit("broadcast", {value}, {{"shape", per_sample}, {"batched", batched}});
}

}  // namespace

Operand constant_operand(LayerContext& context, const Config& value, DType dtype) {
  if (value.is_number()) return {ValueId(), value.as_double()};
  if (value.is_bool()) return {ValueId(), value.as_bool() ? 1.0 : 0.0};
  const Config* inner = value.is_object() ? value.find("config") : nullptr;
  const Config* list = inner != nullptr ? inner->find("value") : &value;
  const Config* named = inner != nullptr ? inner->find("dtype") : nullptr;
  if (list == nullptr) {
    context.refuse("a number or an array", value.to_json().substr(0, 80), "Compute it by layers.");
  }
  ConstantData data;
  data.dtype = dtype;
  if (named != nullptr && named->is_string() && is_integer(dtype)) {
    data.dtype = parse_dtype(named->as_string());
  }
  if (data.dtype == DType::kFloat64) data.dtype = DType::kFloat32;
  flatten(context, *list, 0, data);
  if (data.shape.empty()) return {ValueId(), data.values[0]};
  return {context.constant(data), std::nullopt};
}

ValueId over_batch(LayerContext& context, ValueId value, const Shape& shape) {
  Attributes attributes{{"shape", ops::sample_dims(shape)}, {"batched", true}};
  if (shape[0].count > 1) attributes.set("rows_per_sample", shape[0].count);
  return context.emit("broadcast", {value}, attributes);
}

ValueId as_value(LayerContext& context, const Operand& operand, DType dtype) {
  if (operand.value.valid()) return operand.value;
  return context.emit("constant", {},
                      {{"shape", std::vector<int64_t>{}},
                       {"value", *operand.number},
                       {"dtype", std::string(to_string(dtype))}});
}

void broadcast_together(LayerContext& context, ValueId& a, ValueId& b) {
  const bool real = is_floating(context.type(a).dtype) || is_floating(context.type(b).dtype);
  for (ValueId* value : {&a, &b}) {
    if (real && !is_floating(context.type(*value).dtype)) {
      *value = context.emit("cast", {*value}, {{"dtype", "float32"}});
    }
  }
  stretch_together(context, a, b);
}

void stretch_together(LayerContext& context, ValueId& a, ValueId& b) {
  const Shape left = context.type(a).shape;
  const Shape right = context.type(b).shape;
  if (left == right) return;
  std::vector<int64_t> dims = common_dims(context, left, right);
  const bool batched = left.has_batch() || right.has_batch();
  if (batched && (left.has_batch() ? left : right).rank() != static_cast<int>(dims.size())) {
    context.refuse("the batch first in both values",
                   fmt::format("{} and {}", to_string(left), to_string(right)),
                   "Reshape the one of lower rank first.");
  }
  const int64_t rows = !batched ? 0 : left.has_batch() ? left[0].count : right[0].count;
  a = stretch(context, a, dims, rows);
  b = stretch(context, b, dims, rows);
}

}  // namespace plimsoll::layers
