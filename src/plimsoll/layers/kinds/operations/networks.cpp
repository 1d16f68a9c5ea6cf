// What keras.ops.nn has for networks: classes as rows, pooling, normalizations, attention.

#include <cmath>

#include "base/format.h"
#include "layers/kinds/operation_call.h"
#include "layers/kinds/operation_reduce.h"
#include "layers/kinds/softmax.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;
using Dims = std::vector<int64_t>;

constexpr double kEpsilon = 1e-7;  // keras.config.epsilon

Shape shape_of(const OperationCall& call, ValueId x) { return call.context().type(x).shape; }

Values one_hot(const OperationCall& call) {
  LayerContext& context = call.context();
  if (call.flag("sparse")) call.refuse("sparse=False", "true");
  const ValueId x = call.only();
  const int64_t classes = call.integer("num_classes", 1, kMostElements);
  const int rank = shape_of(call, x).rank() + 1;
  const Config& given = call.option("axis");
  const int64_t axis = call.axis(given.is_null() ? Config(-1) : given, rank);
  ValueId y = axis_moved(context, marked_classes(context, x, classes), rank - 1, axis);
  if (call.operation() == "MultiHot") {
    const Dims folded = {1};
    // Keras folds axis 1, whatever the axis of classes is.
    if (rank > 2) y = reduce_axes(context, y, folded, false, "any");
  }
  const Config& dtype = call.option("dtype");
  return {
      as_dtype(context, y, dtype.is_string() ? parse_dtype(dtype.as_string()) : DType::kFloat32)};
}

// A pooling is the layer of that class, for as many axes of space as the value has.
Values pooled(const OperationCall& call) {
  struct Name {
    std::string_view operation;
    std::string_view layer;
  };
  constexpr Name kNames[] = {{"AdaptiveAveragePool", "AdaptiveAveragePooling"},
                             {"AdaptiveMaxPool", "AdaptiveMaxPooling"},
                             {"AveragePool", "AveragePooling"},
                             {"MaxPool", "MaxPooling"}};
  const ValueId x = call.only_real();
  const int space = shape_of(call, x).rank() - 2;
  if (space < 1 || space > 3) call.refuse("1 to 3 axes of space", to_string(shape_of(call, x)));
  Config config{Config::Object{{"name", std::string("pool")}}};
  for (const char* key : {"pool_size", "strides", "padding", "data_format", "output_size"}) {
    if (!call.option(key).is_null()) config.set(key, call.option(key));
  }
  for (const Name& name : kNames) {
    if (name.operation != call.operation()) continue;
    const auto layer = make_layer(fmt::format("{}{}D", name.layer, space), config);
    return call.context().call(*layer, "pool/", std::span(&x, 1), {}).outputs;
  }
  return {};
}

double epsilon_of(const OperationCall& call, double fallback) {
  const double epsilon = call.number("epsilon", fallback);
  if (!(epsilon >= 0)) call.refuse("an epsilon of 0 or more", std::to_string(epsilon));
  return epsilon;
}

// Reshapes a weight so that it lies along these axes of x, all others of extent 1.
ValueId along(const OperationCall& call, ValueId x, const Config& given, const Dims& axes) {
  LayerContext& context = call.context();
  const Operand one = call.operand(given);
  if (one.number) return as_value(context, one, DType::kFloat32);
  const ValueId value = as_real(context, one.value);
  const Shape shape = context.type(value).shape;
  const Shape whole = shape_of(call, x);
  if (shape.has_batch() || shape.rank() == whole.rank()) return value;
  Dims dims(static_cast<size_t>(whole.rank() - 1), 1);
  for (int64_t axis : axes) {
    dims[static_cast<size_t>(axis - 1)] = whole[static_cast<int>(axis)].count;
  }
  return context.emit("reshape", {value}, {{"shape", dims}});
}

ValueId combined_along(const OperationCall& call, std::string_view op, ValueId x,
                       const Config& given, const Dims& axes) {
  if (given.is_null()) return x;
  return combined(call.context(), op, x, along(call, x, given, axes));
}

// (x − mean) / √(variance + ε) · scale + offset over axes of each sample.
Values normalized(const OperationCall& call) {
  LayerContext& context = call.context();
  const bool rms = call.operation() == "RMSNorm";
  const ValueId x = call.real(call.argument(0, "x"));
  const Dims axes = call.axes(shape_of(call, x).rank());
  const auto mean_of = [&](ValueId value) {
    return reduce_axes(context, value, axes, true, "mean");
  };
  ValueId apart = x;
  if (!rms) apart = combined(context, "subtract", x, mean_of(x));
  const ValueId power = mean_of(context.emit("multiply", {apart, apart}));
  const ValueId inverse =
      function_of(context, "rsqrt", scaled(context, power, 1, epsilon_of(call, kEpsilon)));
  ValueId y = combined(context, "multiply", call.flag("rms_scaling") ? x : apart, inverse);
  y = combined_along(call, "multiply", y, call.argument(1, rms ? "scale" : "gamma"), axes);
  return {rms || call.flag("rms_scaling")
              ? y
              : combined_along(call, "add", y, call.argument(2, "beta"), axes)};
}

// Normalizes by statistics that the call gives.
Values batch_normalized(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.real(call.argument(0, "x"));
  const Dims axes = call.axes(shape_of(call, x).rank());
  if (call.argument(1, "mean").is_null() || call.argument(2, "variance").is_null()) {
    call.refuse("a mean and a variance", "none");
  }
  const ValueId apart = combined_along(call, "subtract", x, call.argument(1, "mean"), axes);
  const ValueId variance = along(call, x, call.argument(2, "variance"), axes);
  const ValueId inverse =
      function_of(context, "rsqrt", scaled(context, variance, 1, epsilon_of(call, 1e-3)));
  ValueId y = combined(context, "multiply", apart, inverse);
  y = combined_along(call, "multiply", y, call.argument(4, "scale"), axes);
  return {combined_along(call, "add", y, call.argument(3, "offset"), axes)};
}

// Repeats keys' heads where queries have more of them: each serves neighbours.
ValueId shared_heads(const OperationCall& call, ValueId x, int64_t heads) {
  LayerContext& context = call.context();
  const Dims dims = dims_of(context, x);
  if (dims[1] == heads) return x;
  if (heads % dims[1] != 0) {
    call.refuse(fmt::format("heads that divide {}", heads), std::to_string(dims[1]));
  }
  const ValueId apart = reshaped(context, x, {dims[0], dims[1], 1, dims[2]});
  const Dims wide = {dims[0], dims[1], heads / dims[1], dims[2]};
  const ValueId all = context.emit("broadcast", {apart}, {{"shape", wide}});
  return reshaped(context, all, {dims[0], heads, dims[2]});
}

Values attention(const OperationCall& call) {
  LayerContext& context = call.context();
  std::vector<ValueId> values;
  for (const char* name : {"query", "key", "value"}) {
    values.push_back(call.real(call.argument(values.size(), name)));
    if (shape_of(call, values.back()).rank() != 4) {
      call.refuse("(batch, positions, heads, channels)", to_string(shape_of(call, values.back())));
    }
  }
  if (!call.option("attn_logits_soft_cap").is_null()) call.refuse("no soft cap", "one");
  const Dims query = dims_of(context, values[0]);
  for (size_t i : {size_t{1}, size_t{2}}) values[i] = shared_heads(call, values[i], query[1]);
  const Config& given = call.argument(5, "scale");
  if (!given.is_null() && !given.is_number()) call.refuse("a number as scale", given.to_json());
  const double scale =
      given.is_number() ? given.as_double() : 1 / std::sqrt(static_cast<double>(query[2]));
  const Config& bias = call.argument(3, "bias");
  const Config& mask = call.argument(4, "mask");
  if (bias.is_null() && mask.is_null()) {
    return {context.emit_all("attention", values,
                             {{"scale", scale}, {"causal", call.flag("is_causal")}})[0]};
  }
  const Values first = {values[0], values[1]};
  ValueId scores = scaled(context, einsum(context, "btnh,bsnh->bnts", first), scale);
  if (!bias.is_null()) scores = combined(context, "add", scores, call.real(bias));
  const ValueId hidden = filled_like(context, scores, -0.7 * 3.4028234663852886e38);
  if (!mask.is_null()) {
    const ValueId shown = as_value(context, call.operand(mask, DType::kBool), DType::kBool);
    scores = chosen(context, as_dtype(context, shown, DType::kBool), scores, hidden);
  }
  if (call.flag("is_causal")) {
    const ValueId ahead = context.emit(
        "subtract", {positions_along(context, scores, 3), positions_along(context, scores, 2)});
    scores = chosen(context, compared(context, ahead, "less_equal", 0), scores, hidden);
  }
  const Values second = {context.emit("softmax", {scores}, {{"axis", -1}}), values[2]};
  return {einsum(context, "bnts,bsnh->btnh", second)};
}

Values sparsemax(const OperationCall& call) {
  const int64_t axis = call.integer("axis", -kMostElements, kMostElements, -1);
  return {sparsemax_along(call.context(), call.only_real(), axis)};
}

constexpr OperationRow kRows[] = {
    {"AdaptiveAveragePool", pooled},
    {"AdaptiveMaxPool", pooled},
    {"AveragePool", pooled},
    {"BatchNorm", batch_normalized},
    {"DotProductAttention", attention},
    {"LayerNorm", normalized},
    {"MaxPool", pooled},
    {"MultiHot", one_hot},
    {"OneHot", one_hot},
    {"RMSNorm", normalized},
    {"Sparsemax", sparsemax},
};

}  // namespace

std::span<const OperationRow> network_operations() { return kRows; }

}  // namespace plimsoll::layers
