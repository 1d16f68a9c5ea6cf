// Operators that compare the elements of an axis: the axis is moved to the end, where the operators
// of the graph work, and moved back afterwards. Sorting puts NaNs last, of the largest too: where
// an axis has one, TensorFlow's order depends on where it stands.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "layers/kinds/operation_call.h"
#include "layers/model/call_arguments.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;

// The elements of a row that have those numbers: of integers integers. Those that are no int32 come
// by float32, which has all up to 2^24.
ValueId gathered(LayerContext& context, ValueId x, ValueId places) {
  const DType type = context.type(x).dtype;
  if (type != DType::kInt32) x = as_real(context, x);
  const ValueId y = context.emit("gather_last", {x, places});
  return is_integer(type) ? as_dtype(context, y, type) : y;
}

// Holds a value whose axis was moved to the end, and where the axis came from.
struct LastAxis {
  ValueId value;
  int64_t axis = 1;
  int64_t last = 1;
  int64_t count = 1;
};

LastAxis with_axis_last(const OperationCall& call, ValueId x) {
  const int rank = call.context().type(x).shape.rank();
  LastAxis result;
  result.axis = call.axis(call.option("axis").is_null() ? Config(-1) : call.option("axis"), rank);
  result.last = rank - 1;
  result.count = call.context().type(x).shape[static_cast<int>(result.axis)].count;
  result.value = axis_moved(call.context(), x, result.axis, result.last);
  return result;
}

// Without an axis Keras counts through the batch.
void expect_axis(const OperationCall& call) {
  if (!call.option("axis").is_int()) {
    call.refuse("an axis after the batch", call.option("axis").to_json(), "Samples are not mixed.");
  }
}

Values arg_extremum(const OperationCall& call) {
  LayerContext& context = call.context();
  expect_axis(call);
  LastAxis x = with_axis_last(call, call.only_real());
  const bool largest = call.operation().ends_with("max");
  const bool leaves_nan_out = call.operation().starts_with("Nan");
  ValueId none;  // where there is no number
  if (leaves_nan_out) {
    const ValueId odd = is_nan(context, x.value);
    const double least = -std::numeric_limits<double>::infinity();
    const ValueId edge = filled_like(context, x.value, largest ? least : -least);
    x.value = chosen(context, odd, edge, x.value);
    none = odd;
  }
  ValueId y = context.emit("arg_extremum_last", {x.value},
                           {{"of", std::string(largest ? "maximum" : "minimum")}});
  if (leaves_nan_out) {
    // Keras gives -1 for a row without a number.
    const ValueId numbers = context.emit("logical", {none}, {{"kind", "not"}});
    const ValueId any = context.emit("any_last", {numbers});
    const ValueId place = as_dtype(context, y, DType::kFloat32);
    y = as_dtype(context, chosen(context, any, place, filled_like(context, place, -1)),
                 DType::kInt32);
  }
  if (!call.flag("keepdims")) return {y};
  std::vector<int64_t> dims = dims_of(context, call.only());
  dims[static_cast<size_t>(x.axis - 1)] = 1;
  return {reshaped(context, y, dims)};
}

ValueId order_of(LayerContext& context, ValueId x, bool descending) {
  if (context.type(x).dtype != DType::kInt32) x = as_real(context, x);
  return context.emit("argsort_last", {x}, {{"descending", descending}});
}

Values sort(const OperationCall& call) {
  LayerContext& context = call.context();
  expect_axis(call);
  const LastAxis x = with_axis_last(call, call.only());
  const ValueId order = order_of(context, x.value, false);
  const ValueId y = call.operation() == "Argsort" ? order : gathered(context, x.value, order);
  return {axis_moved(context, y, x.last, x.axis)};
}

Values top_k(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only();
  const int rank = context.type(x).shape.rank();
  if (rank < 2) call.refuse("an axis after the batch", to_string(context.type(x).shape));
  const int64_t count = context.type(x).shape[rank - 1].count;
  const int64_t k = call.integer("k", 1, count);
  const ValueId places = sliced(context, order_of(context, x, true), rank - 1, 0, k);
  return {gathered(context, x, places), places};
}

Values take_along(const OperationCall& call) {
  LayerContext& context = call.context();
  expect_axis(call);
  if (call.inputs().size() != 2) call.refuse("two values of the model", "another call");
  const LastAxis x = with_axis_last(call, call.inputs()[0]);
  const ValueId given = as_dtype(context, call.inputs()[1], DType::kFloat32);
  const ValueId from_end = scaled(context, given, 1, static_cast<double>(x.count));
  const ValueId places =
      as_dtype(context, chosen(context, compared(context, given, "less", 0), from_end, given),
               DType::kInt32);
  const ValueId places_last = axis_moved(context, places, x.axis, x.last);
  const ValueId y = gathered(context, x.value, places_last);
  return {axis_moved(context, y, x.last, x.axis)};
}

// Says between which two places of the sorted axis a quantile lies, and how far from the lower.
struct Place {
  int64_t low = 0;
  int64_t high = 0;
  double share = 0;
};

Place place_of(const OperationCall& call, int64_t count, double share) {
  if (!(share >= 0 && share <= 1)) call.refuse("a share from 0 to 1", std::to_string(share));
  const double at = share * static_cast<double>(count - 1);
  const auto low = static_cast<int64_t>(std::floor(at));
  const auto high = static_cast<int64_t>(std::ceil(at));
  const Config& method = call.option("method");
  if (method.is_string() && method.as_string() != "linear") {
    call.refuse("linear as method", method.as_string(),
                "Keras's own operator computes linear whatever it is told.");
  }
  return {low, high, at - static_cast<double>(low)};
}

Values quantile(const OperationCall& call) {
  LayerContext& context = call.context();
  double share = 0.5;
  if (call.operation() != "Median") {
    const Config& given = call.argument(1, "q");
    if (!given.is_number()) {
      call.refuse("one number as q", given.to_json().substr(0, 80), "Ask for one after the other.");
    }
    share = given.as_double() / (call.operation() == "Percentile" ? 100 : 1);
  }
  ValueId x = call.only_real();
  const std::vector<int64_t> axes = call.axes(context.type(x).shape.rank());
  if (axes.size() != 1) call.refuse("one axis", call.option("axis").to_json());
  std::vector<int64_t> dims = dims_of(context, x);
  const auto last = static_cast<int64_t>(dims.size());
  const int64_t count = dims[static_cast<size_t>(axes[0] - 1)];
  const Place place = place_of(call, count, share);
  x = axis_moved(context, x, axes[0], last);
  const ValueId sorted = context.emit("gather_last", {x, order_of(context, x, false)});
  ValueId y = sliced(context, sorted, last, place.low, 1);
  if (place.low != place.high && place.share > 0) {
    const ValueId high = sliced(context, sorted, last, place.high, 1);
    y = context.emit("add",
                     {scaled(context, y, 1 - place.share), scaled(context, high, place.share)});
  }
  // A NaN is the last of the sorted axis; none of its quantiles is a number.
  if (place.high != count - 1) {
    const ValueId most = sliced(context, sorted, last, count - 1, 1);
    y = chosen(context, is_nan(context, most), most, y);
  }
  dims[static_cast<size_t>(axes[0] - 1)] = 1;
  if (!call.flag("keepdims")) dims.erase(dims.begin() + (axes[0] - 1));
  return {reshaped(context, y, dims)};
}

// Between which two places of `count` sorted numbers a quantile lies, as Keras counts them in
// double, and the share of the higher one.
Place place_by(std::string_view method, int64_t count, double share) {
  const double at = static_cast<double>(count - 1) * share;
  const auto inside = [&](double place) {
    return std::clamp(static_cast<int64_t>(place), int64_t{0}, count - 1);
  };
  if (method == "lower") return {inside(std::floor(at)), inside(std::floor(at)), 0};
  if (method == "higher") return {inside(std::ceil(at)), inside(std::ceil(at)), 0};
  if (method == "nearest") return {inside(std::nearbyint(at)), inside(std::nearbyint(at)), 0};
  if (method == "midpoint") return {inside(std::floor(at)), inside(std::ceil(at)), 0.5};
  const int64_t low = std::max<int64_t>(inside(std::ceil(at)) - 1, 0);
  const int64_t high = std::min(low + 1, count - 1);
  return {low, high, 1 - static_cast<double>(static_cast<float>(static_cast<double>(high) - at))};
}

// Shares are float32 in Keras.
double share_of(const OperationCall& call) {
  if (call.operation() == "Nanmedian") return 0.5;
  const Config& given = call.argument(1, "q");
  if (!given.is_number()) {
    call.refuse("one number as q", given.to_json().substr(0, 80), "Ask for one after the other.");
  }
  auto share = static_cast<float>(given.as_double());
  if (call.operation() == "Nanpercentile") share /= 100.0F;
  if (!(share >= 0 && share <= 1)) call.refuse("a share from 0 to 1", std::to_string(share));
  return static_cast<double>(share);
}

// Of each row's numbers alone: those that are none lie last, and a table says for each count of
// numbers which places are taken.
Values quantile_of_numbers(const OperationCall& call) {
  LayerContext& context = call.context();
  constexpr int64_t kMostNumbers = 65536;
  const double share = share_of(call);
  const Config& method = call.option("method");
  const std::string name = method.is_string() ? method.as_string() : "linear";
  ValueId x = call.only_real();
  const std::vector<int64_t> axes = call.axes(context.type(x).shape.rank());
  if (axes.size() != 1) call.refuse("one axis", call.option("axis").to_json());
  std::vector<int64_t> dims = dims_of(context, x);
  const auto last = static_cast<int64_t>(dims.size());
  const int64_t count = dims[static_cast<size_t>(axes[0] - 1)];
  if (count > kMostNumbers) {
    call.refuse(fmt::format("at most {} numbers", kMostNumbers), std::to_string(count));
  }
  ConstantData table{DType::kFloat32, {count + 1, 3}, {0, 0, 0}};
  for (int64_t some = 1; some <= count; ++some) {
    const Place place = place_by(name, some, share);
    for (const double number :
         {static_cast<double>(place.low), static_cast<double>(place.high), place.share}) {
      table.values.push_back(number);
    }
  }
  x = axis_moved(context, x, axes[0], last);
  const ValueId sorted = context.emit("gather_last", {x, order_of(context, x, false)});
  std::vector<int64_t> one = dims_of(context, x);
  one.back() = 1;
  const ValueId valid = context.emit("logical", {is_nan(context, x)}, {{"kind", "not"}});
  const ValueId some = context.emit("sum_to", {as_dtype(context, valid, DType::kFloat32)},
                                    {{"shape", one}, {"batched", true}});
  const ValueId found =
      context.emit("embedding", {as_dtype(context, some, DType::kInt32), context.constant(table)});
  const auto column = [&](int64_t k) {
    return reshaped(context, sliced(context, found, last + 1, k, 1), one);
  };
  const auto number_at = [&](int64_t k) {
    return context.emit("gather_last", {sorted, as_dtype(context, column(k), DType::kInt32)});
  };
  const ValueId upper = column(2);
  const ValueId low = context.emit("multiply", {number_at(0), scaled(context, upper, -1, 1)});
  const ValueId high = context.emit("multiply", {number_at(1), upper});
  dims[static_cast<size_t>(axes[0] - 1)] = 1;
  if (!call.flag("keepdims")) dims.erase(dims.begin() + (axes[0] - 1));
  return {reshaped(context, context.emit("add", {low, high}), dims)};
}

constexpr OperationRow kRows[] = {
    {"Argmax", arg_extremum},
    {"Argmin", arg_extremum},
    {"Argsort", sort},
    {"Nanargmax", arg_extremum},
    {"Nanargmin", arg_extremum},
    {"Nanmedian", quantile_of_numbers},
    {"Nanpercentile", quantile_of_numbers},
    {"Nanquantile", quantile_of_numbers},
    {"Median", quantile},
    {"Percentile", quantile},
    {"Quantile", quantile},
    {"Sort", sort},
    {"TakeAlongAxis", take_along},
    {"TopK", top_k},
};

}  // namespace

std::span<const OperationRow> order_operations() { return kRows; }

}  // namespace plimsoll::layers
