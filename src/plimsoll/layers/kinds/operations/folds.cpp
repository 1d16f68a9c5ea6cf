// Operators that fold axes of each sample, beyond sums and extrema.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "layers/kinds/operation_call.h"
#include "layers/kinds/operation_reduce.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;
using Axes = std::vector<int64_t>;

constexpr double kEpsilon = 1e-7;  // keras.config.epsilon
constexpr double kSmallest = std::numeric_limits<float>::min();

ValueId fold(LayerContext& context, ValueId x, const Axes& axes, bool keepdims,
             std::string_view kind) {
  return reduce_axes(context, x, axes, keepdims, kind);
}

Axes axes_of(const OperationCall& call, ValueId x, std::string_view key = "axis") {
  return call.axes(call.context().type(x).shape.rank(), key);
}

ValueId squared(LayerContext& context, ValueId x) { return context.emit("multiply", {x, x}); }

struct Spread {
  ValueId mean;      // with axes of extent 1
  ValueId variance;  // likewise
};

Spread spread(LayerContext& context, ValueId x, const Axes& axes) {
  const ValueId mean = fold(context, x, axes, true, "mean");
  const ValueId apart = combined(context, "subtract", x, mean);
  return {mean, fold(context, squared(context, apart), axes, true, "mean")};
}

// Drops the axes of extent 1, unless the call keeps them.
ValueId finished(const OperationCall& call, ValueId y, const Axes& axes) {
  if (call.flag("keepdims")) return y;
  const std::vector<int64_t> dims = dims_of(call.context(), y);
  std::vector<int64_t> left;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d) + 1) == axes.end()) {
      left.push_back(dims[d]);
    }
  }
  return reshaped(call.context(), y, left);
}

Values variance(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  const Axes axes = axes_of(call, x);
  const ValueId y = finished(call, spread(context, x, axes).variance, axes);
  return {call.operation() == "Std" ? function_of(context, "sqrt", y) : y};
}

Values moments(const OperationCall& call) {
  const ValueId x = call.only_real();
  const Axes axes = axes_of(call, x, "axes");
  const Spread both = spread(call.context(), x, axes);
  return {finished(call, both.mean, axes), finished(call, both.variance, axes)};
}

Values extremum(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  const Axes axes = axes_of(call, x);
  const bool keeps = call.flag("keepdims");
  if (call.operation() == "Amax") return {fold(context, x, axes, keeps, "maximum")};
  if (call.operation() == "Amin") return {fold(context, x, axes, keeps, "minimum")};
  return {context.emit("subtract", {fold(context, x, axes, keeps, "maximum"),
                                    fold(context, x, axes, keeps, "minimum")})};
}

// The largest is subtracted first, so that no exponential overflows; where it is infinite nothing
// is.
Values log_sum_exp(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  const Axes axes = axes_of(call, x);
  ValueId most = context.emit("stop_gradient", {fold(context, x, axes, true, "maximum")});
  const ValueId odd = is_nan(context, context.emit("subtract", {most, most}));
  most = chosen(context, odd, filled_like(context, most, 0), most);
  const ValueId lower = combined(context, "subtract", x, most);
  const ValueId sum = fold(context, context.emit("activation", {lower}, {{"kind", "exponential"}}),
                           axes, true, "sum");
  return {finished(call, context.emit("add", {function_of(context, "log", sum), most}), axes)};
}

// (Σ |x|^p)^(1/p) with axes of extent 1.
ValueId power_norm(LayerContext& context, ValueId x, const Axes& axes, double order) {
  const ValueId size = function_of(context, "abs", x);
  if (order == 1) return fold(context, size, axes, true, "sum");
  const auto power = [&](ValueId value, double exponent) {
    return context.emit("unary", {value}, {{"kind", "power"}, {"exponent", exponent}});
  };
  return power(fold(context, power(size, order), axes, true, "sum"), 1 / order);
}

ValueId norm_of(const OperationCall& call, ValueId x, const Axes& axes) {
  LayerContext& context = call.context();
  const Config& order = call.option("ord");
  const bool frobenius = order.is_string() && order.as_string() == "fro";
  if (order.is_null() || frobenius || (order.is_number() && order.as_double() == 2)) {
    if (axes.size() > 1 && order.is_number()) {
      call.refuse("one axis for this norm", "two", "Use ord=\"fro\".");
    }
    return function_of(context, "sqrt", fold(context, squared(context, x), axes, true, "sum"));
  }
  if (!order.is_number() || axes.size() != 1) {
    call.refuse("null, \"fro\" or a number with one axis as ord", order.to_json());
  }
  const double p = order.as_double();
  if (p == 0) {
    const ValueId some = compared(context, x, "not_equal", 0);
    return fold(context, as_dtype(context, some, DType::kFloat32), axes, true, "sum");
  }
  return power_norm(context, x, axes, p);
}

Values norm(const OperationCall& call) {
  const ValueId x = call.only_real();
  const Axes axes = axes_of(call, x);
  return {finished(call, norm_of(call, x, axes), axes)};
}

Values normalize(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  const Axes axes = axes_of(call, x);
  const int64_t order = call.integer("order", 1, 1000, 2);
  const double epsilon = call.number("epsilon", kEpsilon);
  if (!(epsilon > 0)) call.refuse("an epsilon above 0", std::to_string(epsilon));
  if (order == 2) {
    // The sum is bounded, not its inverse root, whose gradient at zero is infinite.
    const ValueId sum = fold(context, squared(context, x), axes, true, "sum");
    const double least = std::max(epsilon * epsilon, kSmallest);
    const ValueId bounded = context.emit("maximum", {sum, filled_like(context, sum, least)});
    return {combined(context, "multiply", x, function_of(context, "rsqrt", bounded))};
  }
  const ValueId size = power_norm(context, x, axes, static_cast<double>(order));
  const ValueId least = context.emit("maximum", {size, filled_like(context, size, epsilon)});
  return {combined(context, "divide", x, least)};
}

Values count_nonzero(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only();
  const ValueId some = as_dtype(context, as_dtype(context, x, DType::kBool), DType::kFloat32);
  return {as_dtype(context, fold(context, some, axes_of(call, x), false, "sum"), DType::kInt32)};
}

Values average(const OperationCall& call) {
  LayerContext& context = call.context();
  const Config& given = call.argument(1, "weights");
  const ValueId x = as_real(context, call.inputs().empty() ? ValueId() : call.inputs()[0]);
  const Axes axes = axes_of(call, x);
  if (given.is_null()) return {fold(context, x, axes, false, "mean")};
  ValueId weights = call.real(given);
  const int rank = context.type(x).shape.rank();
  if (context.type(weights).shape.rank() == 1 && axes.size() == 1 && rank > 1) {
    std::vector<int64_t> dims(static_cast<size_t>(rank - 1), 1);
    dims[static_cast<size_t>(axes[0] - 1)] = context.type(weights).shape[0].count;
    dims.insert(dims.begin(), 1);
    weights = context.emit("reshape", {weights}, {{"shape", dims}});
  }
  ValueId values = x;
  stretch_together(context, values, weights);
  const ValueId sum =
      fold(context, context.emit("multiply", {values, weights}), axes, false, "sum");
  return {context.emit("divide", {sum, fold(context, weights, axes, false, "sum")})};
}

// Means, sums and variances that leave NaNs out.
Values of_numbers(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  const Axes axes = axes_of(call, x);
  const ValueId valid = context.emit("logical", {is_nan(context, x)}, {{"kind", "not"}});
  const ValueId zero = filled_like(context, x, 0);
  const ValueId sum = fold(context, chosen(context, valid, x, zero), axes, true, "sum");
  if (call.operation() == "Nansum") return {finished(call, sum, axes)};
  const ValueId count = fold(context, as_dtype(context, valid, DType::kFloat32), axes, true, "sum");
  const ValueId mean = context.emit("divide", {sum, count});
  if (call.operation() == "Nanmean") return {finished(call, mean, axes)};
  const ValueId apart = chosen(context, valid, combined(context, "subtract", x, mean), zero);
  const ValueId squares = fold(context, squared(context, apart), axes, true, "sum");
  const ValueId y = finished(call, context.emit("divide", {squares, count}), axes);
  return {call.operation() == "Nanstd" ? function_of(context, "sqrt", y) : y};
}

Values extremum_of_numbers(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  const Axes axes = axes_of(call, x);
  const bool largest = call.operation() == "Nanmax";
  const double least = -std::numeric_limits<double>::infinity();
  const ValueId odd = is_nan(context, x);
  const ValueId clean = chosen(context, odd, filled_like(context, x, largest ? least : -least), x);
  const ValueId y = fold(context, clean, axes, true, largest ? "maximum" : "minimum");
  const ValueId none = fold(context, odd, axes, true, "all");
  const ValueId nothing = filled_like(context, y, 0);
  const ValueId nan = context.emit("divide", {nothing, nothing});
  return {finished(call, chosen(context, none, nan, y), axes)};
}

// Puts a number in place of each NaN.
ValueId without_nan(LayerContext& context, ValueId x, double number) {
  return chosen(context, is_nan(context, x), filled_like(context, x, number), x);
}

Values product(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId x = call.only_real();
  if (call.operation() == "Nanprod") x = without_nan(context, x, 1);
  const Axes axes = axes_of(call, x);
  if (!call.option("dtype").is_null()) {
    call.refuse("no dtype", call.option("dtype").to_json(), "Cast the product instead.");
  }
  const std::vector<int64_t> dims = dims_of(context, x);
  std::vector<int64_t> kept = dims;
  // The axes are folded one after the other, the last first.
  for (size_t i = axes.size(); i-- > 0;) {
    const auto rank = static_cast<int64_t>(dims_of(context, x).size());
    x = context.emit("product_last", {axis_moved(context, x, axes[i], rank)});
    kept[static_cast<size_t>(axes[i] - 1)] = 1;
  }
  return {call.flag("keepdims") ? reshaped(context, x, kept) : x};
}

Values running_sum(const OperationCall& call) {
  LayerContext& context = call.context();
  const DType type = context.type(call.only()).dtype;
  ValueId x = call.only_real();
  if (call.operation() == "Nancumsum") x = without_nan(context, x, 0);
  if (!call.option("dtype").is_null()) {
    call.refuse("no dtype", call.option("dtype").to_json(), "Cast the sums instead.");
  }
  const int64_t axis = call.axis(call.option("axis"), context.type(x).shape.rank());
  const ValueId y = context.emit("running_sum", {x}, {{"axis", axis}});
  // Numbers that are counted up stay integers: they may name rows of a table.
  if (type == DType::kBool) return {as_dtype(context, y, DType::kInt32)};
  return {is_integer(type) ? as_dtype(context, y, type) : y};
}

// Each element times those before it: products of 2, 4, 8 … neighbours, one after the other.
Values running_product(const OperationCall& call) {
  LayerContext& context = call.context();
  const DType type = context.type(call.only()).dtype;
  if (is_integer(type)) {
    call.refuse("real numbers", "integers", "Cast them first: x = ops.cast(x, \"float32\").");
  }
  ValueId y = call.only_real();
  if (call.operation() == "Nancumprod") y = without_nan(context, y, 1);
  if (!call.option("dtype").is_null()) {
    call.refuse("no dtype", call.option("dtype").to_json(), "Cast the products instead.");
  }
  const int64_t axis = call.axis(call.option("axis"), context.type(y).shape.rank());
  const int64_t count = dims_of(context, y)[static_cast<size_t>(axis - 1)];
  for (int64_t step = 1; step < count; step *= 2) {
    const ValueId ones = filled_like(context, sliced(context, y, axis, 0, step), 1);
    const ValueId before =
        context.emit("concat", {ones, sliced(context, y, axis, 0, count - step)}, {{"axis", axis}});
    y = context.emit("multiply", {y, before});
  }
  if (type == DType::kBool) return {as_dtype(context, y, DType::kInt32)};
  return {y};
}

constexpr OperationRow kRows[] = {
    {"Amax", extremum},
    {"Amin", extremum},
    {"Average", average},
    {"CountNonzero", count_nonzero},
    {"Cumsum", running_sum},
    {"Logsumexp", log_sum_exp},
    {"Cumprod", running_product},
    {"Nancumprod", running_product},
    {"Moments", moments},
    {"Nanmax", extremum_of_numbers},
    {"Nanmean", of_numbers},
    {"Nancumsum", running_sum},
    {"Nanprod", product},
    {"Nanmin", extremum_of_numbers},
    {"Nanstd", of_numbers},
    {"Nansum", of_numbers},
    {"Nanvar", of_numbers},
    {"Norm", norm},
    {"Normalize", normalize},
    {"Prod", product},
    {"Ptp", extremum},
    {"Std", variance},
    {"Var", variance},
};

}  // namespace

std::span<const OperationRow> fold_operations() { return kRows; }

}  // namespace plimsoll::layers
