// Operators that work element by element and are no single function (operation.cpp has those).

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;

constexpr double kPi = 3.141592653589793238463;

struct Pair {
  ValueId left;
  ValueId right;
};

Pair two_reals(const OperationCall& call) {
  if (call.argument_count() < 2) {
    call.refuse("two operands", std::to_string(call.argument_count()));
  }
  Pair pair{call.real(call.argument(0, "x1")), call.real(call.argument(1, "x2"))};
  broadcast_together(call.context(), pair.left, pair.right);
  return pair;
}

struct BinaryName {
  std::string_view operation;
  std::string_view kind;
};
constexpr std::array kBinary = {
    BinaryName{"Arctan2", "arctan2"},     BinaryName{"FloorDivide", "floor_divide"},
    BinaryName{"Fmod", "fmod"},           BinaryName{"Hypot", "hypot"},
    BinaryName{"Logaddexp", "logaddexp"}, BinaryName{"Logaddexp2", "logaddexp2"},
    BinaryName{"Mod", "floor_mod"},
};

Values binary(const OperationCall& call) {
  std::string_view kind;
  for (const BinaryName& row : kBinary) {
    if (row.operation == call.operation()) kind = row.kind;
  }
  for (ValueId x : call.inputs()) {
    if (is_floating(call.context().type(x).dtype)) continue;
    call.refuse("values of floating point", std::string(to_string(call.context().type(x).dtype)),
                "Cast them to float32 first.");
  }
  const Pair pair = two_reals(call);
  return {call.context().emit("binary", {pair.left, pair.right}, {{"kind", std::string(kind)}})};
}

// Keras takes the next number of float64, which float32 rounds back: the first number itself, and
// none where either is none.
Values next_after(const OperationCall& call) {
  LayerContext& context = call.context();
  const Pair pair = two_reals(call);
  return {chosen(context, is_nan(context, pair.right), pair.right, pair.left)};
}

// Powers of each number from 0 to N − 1 on a new last axis, or from N − 1 to 0.
Values powers(const OperationCall& call) {
  LayerContext& context = call.context();
  constexpr int64_t kMost = 1024;
  if (call.option("N").is_null()) {
    call.refuse("N", "none", "Without it Keras has as many columns as the batch has samples.");
  }
  const int64_t count = call.integer("N", 1, kMost);
  const ValueId x = call.only_real();
  std::vector<int64_t> dims = dims_of(context, x);
  dims.push_back(1);
  const ValueId column = reshaped(context, x, dims);
  Values columns = {filled_like(context, column, 1)};
  while (std::ssize(columns) < count) {
    columns.push_back(columns.size() == 1 ? column
                                          : context.emit("multiply", {columns.back(), column}));
  }
  if (!call.flag("increasing")) std::ranges::reverse(columns);
  if (count == 1) return columns;
  return {context.emit("concat", columns, {{"axis", static_cast<int64_t>(dims.size())}})};
}

Values divide_no_nan(const OperationCall& call) {
  const Pair pair = two_reals(call);
  return {call.context().emit("divide_no_nan", {pair.left, pair.right})};
}

// Where one is NaN the other is taken.
Values extremum_of_numbers(const OperationCall& call) {
  LayerContext& context = call.context();
  const Pair pair = two_reals(call);
  ValueId y =
      context.emit(call.operation() == "Fmax" ? "maximum" : "minimum", {pair.left, pair.right});
  y = chosen(context, is_nan(context, pair.left), pair.right, y);
  return {chosen(context, is_nan(context, pair.right), pair.left, y)};
}

Values heaviside(const OperationCall& call) {
  LayerContext& context = call.context();
  const Pair pair = two_reals(call);
  const ValueId zero = filled_like(context, pair.left, 0);
  const ValueId one = filled_like(context, pair.left, 1);
  const ValueId at_most =
      chosen(context, compared(context, pair.left, "greater", 0), one, pair.right);
  return {chosen(context, compared(context, pair.left, "less", 0), zero, at_most)};
}

Values scaled_only(const OperationCall& call) {
  const double scale = call.operation() == "Deg2rad" ? kPi / 180 : 180 / kPi;
  return {scaled(call.context(), call.only_real(), scale)};
}

Values round_to(const OperationCall& call) {
  const double factor = std::pow(10.0, static_cast<double>(call.integer("decimals", -30, 30, 0)));
  if (factor == 1) return {function_of(call.context(), "round", call.only_real())};
  const ValueId raised = scaled(call.context(), call.only_real(), factor);
  return {scaled(call.context(), function_of(call.context(), "round", raised), 1 / factor)};
}

// x − x is no number exactly where x is not finite.
ValueId is_infinite(LayerContext& context, ValueId x) {
  const ValueId odd = is_nan(context, context.emit("subtract", {x, x}));
  const ValueId some = context.emit("logical", {is_nan(context, x)}, {{"kind", "not"}});
  return context.emit("logical", {odd, some}, {{"kind", "and"}});
}

ValueId is_infinite(LayerContext& context, ValueId x, std::string_view side) {
  return context.emit("logical", {is_infinite(context, x), compared(context, x, side, 0)},
                      {{"kind", "and"}});
}

Values classified(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  if (call.operation() == "Isnan") return {is_nan(context, x)};
  if (call.operation() == "Isinf") return {is_infinite(context, x)};
  if (call.operation() == "Isposinf") return {is_infinite(context, x, "greater")};
  if (call.operation() == "Isneginf") return {is_infinite(context, x, "less")};
  const ValueId odd = is_nan(context, context.emit("subtract", {x, x}));
  return {context.emit("logical", {odd}, {{"kind", "not"}})};
}

Values nan_to_num(const OperationCall& call) {
  LayerContext& context = call.context();
  const double most = static_cast<double>(std::numeric_limits<float>::max());
  ValueId x = call.only_real();
  const auto replace = [&](ValueId where, double number) {
    x = chosen(context, where, filled_like(context, x, number), x);
  };
  replace(is_nan(context, x), call.number("nan", 0));
  replace(is_infinite(context, x, "greater"), call.number("posinf", most));
  replace(is_infinite(context, x, "less"), call.number("neginf", -most));
  return {x};
}

// |a − b| ≤ atol + rtol · |b|
Values is_close(const OperationCall& call) {
  LayerContext& context = call.context();
  const Pair pair = two_reals(call);
  const auto tolerance = [&](size_t position, std::string_view name, double fallback) {
    const Config& given = call.argument(position, name);
    if (given.is_null()) return fallback;
    if (!given.is_number()) call.refuse("a number as tolerance", given.to_json());
    return given.as_double();
  };
  const ValueId apart =
      function_of(context, "abs", context.emit("subtract", {pair.left, pair.right}));
  const ValueId allowed = scaled(context, function_of(context, "abs", pair.right),
                                 tolerance(2, "rtol", 1e-5), tolerance(3, "atol", 1e-8));
  const ValueId close = context.emit("compare", {apart, allowed}, {{"kind", "less_equal"}});
  if (!call.flag("equal_nan")) return {close};
  const ValueId both = context.emit(
      "logical", {is_nan(context, pair.left), is_nan(context, pair.right)}, {{"kind", "and"}});
  return {context.emit("logical", {close, both}, {{"kind", "or"}})};
}

DType dtype_or(const OperationCall& call, DType fallback) {
  const Config& given = call.option("dtype");
  return given.is_string() ? parse_dtype(given.as_string()) : fallback;
}

Values full_like(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only();
  double number = 0;
  if (call.operation() == "FullLike") {
    const Operand fill = call.operand(call.argument(1, "fill_value"));
    if (!fill.number) call.refuse("a number to fill with", "an array");
    number = *fill.number;
  }
  const DType own = context.type(x).dtype;
  const DType dtype = dtype_or(call, own == DType::kBFloat16 ? DType::kFloat32 : own);
  return {as_dtype(context, filled_like(context, x, number), dtype)};
}

// Here every number is real.
Values of_complex(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  if (call.operation() == "Imag") return {filled_like(context, x, 0)};
  if (call.operation() != "Angle")
    return {context.emit("scale_shift", {x}, {{"scale", 1.0}, {"offset", 0.0}})};
  return {chosen(context, compared(context, x, "less", 0), filled_like(context, x, kPi),
                 filled_like(context, x, 0))};
}

Values all_true(const OperationCall& call) {
  return {as_dtype(call.context(), filled_like(call.context(), call.only(), 1), DType::kBool)};
}

// −0 has a sign bit too; that of a NaN is not looked at.
Values sign_bit(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  const ValueId inverse = compared(context, function_of(context, "reciprocal", x), "less", 0);
  return {context.emit("logical", {compared(context, x, "less", 0), inverse}, {{"kind", "or"}})};
}

// a · 2^b
Values load_exponent(const OperationCall& call) {
  LayerContext& context = call.context();
  const Pair pair = two_reals(call);
  return {context.emit("multiply", {pair.left, function_of(context, "exp2", pair.right)})};
}

Values unchanged(const OperationCall& call) { return {call.only()}; }

Values stopped(const OperationCall& call) {
  return {call.context().emit("stop_gradient", {call.only()})};
}

// The numbers of a constant list or array.
std::vector<double> numbers_of(const OperationCall& call, const Config& given) {
  const Config* inner = given.is_object() ? given.find("config") : nullptr;
  const Config* list = inner != nullptr ? inner->find("value") : &given;
  std::vector<double> numbers;
  const bool flat = list != nullptr && list->is_array();
  if (flat) {
    for (const Config& one : list->as_array()) {
      if (!one.is_number()) call.refuse("a list of numbers", given.to_json().substr(0, 80));
      numbers.push_back(one.as_double());
    }
  }
  constexpr size_t kMostNumbers = 65536;
  if (numbers.empty() || numbers.size() > kMostNumbers) {
    call.refuse(fmt::format("a list of 1 to {} numbers", kMostNumbers),
                given.to_json().substr(0, 80));
  }
  return numbers;
}

Values digitize(const OperationCall& call) {
  const bool digits = call.operation() == "Digitize";
  const std::vector<double> bounds =
      numbers_of(call, call.argument(digits ? 1 : 0, digits ? "bins" : "sorted_sequence"));
  const Config& side = call.option("side");
  const bool or_at = digits || (side.is_string() && side.as_string() == "right");
  return {counted_below(call.context(), call.only_real(), bounds, or_at)};
}

Values is_in(const OperationCall& call) {
  LayerContext& context = call.context();
  const std::vector<double> numbers = numbers_of(call, call.argument(1, "x2"));
  const ValueId x = call.only_real();
  std::vector<int64_t> dims = dims_of(context, x);
  dims.push_back(1);
  ValueId a = reshaped(context, x, dims);
  ValueId b = context.constant(
      {DType::kFloat32, {static_cast<int64_t>(numbers.size())}, {numbers.begin(), numbers.end()}});
  broadcast_together(context, a, b);
  const ValueId same = context.emit("compare", {a, b}, {{"kind", "equal"}});
  const ValueId any = context.emit("any_last", {same});
  if (!call.flag("invert")) return {any};
  return {context.emit("logical", {any}, {{"kind", "not"}})};
}

// Takes the value beside the first condition that holds.
Values select_first(const OperationCall& call) {
  LayerContext& context = call.context();
  const Config& conditions = call.argument(0, "condlist");
  const Config& choices = call.argument(1, "choicelist");
  if (!conditions.is_array() || !choices.is_array() ||
      conditions.as_array().size() != choices.as_array().size() || conditions.as_array().empty()) {
    call.refuse("as many choices as conditions", choices.to_json().substr(0, 80));
  }
  const Config& otherwise = call.argument(2, "default");
  ValueId y = call.real(otherwise.is_null() ? Config(0.0) : otherwise);
  for (size_t i = conditions.as_array().size(); i-- > 0;) {
    const Operand one = call.operand(conditions.as_array()[i], DType::kBool);
    const ValueId condition = as_dtype(context, as_value(context, one, DType::kBool), DType::kBool);
    y = chosen(context, condition, call.real(choices.as_array()[i]), y);
  }
  return {y};
}

// The least or greatest number of a type that is one of another, as Keras counts: where rounding
// leads beyond it, the next one towards 0.
double bound_of(DType to, bool least) {
  using Limits = std::numeric_limits<float>;
  switch (to) {
    case DType::kBool:
      return least ? 0 : 1;
    case DType::kUInt8:
      return least ? 0 : 255;
    case DType::kInt8:
      return least ? -128 : 127;
    case DType::kInt32:
      return least ? -2147483648.0 : 2147483520.0;
    case DType::kInt64:
      return least ? -9223372036854775808.0 : 9223371487098961920.0;
    case DType::kFloat16:
      return least ? -65504 : 65504;
    case DType::kBFloat16:
      return (least ? -1 : 1) * 3.38953138925153547590470800371487866880e38;
    default:
      return least ? static_cast<double>(Limits::lowest()) : static_cast<double>(Limits::max());
  }
}

// What lies beyond the numbers of a type becomes the last of them.
Values saturated(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId x = call.only();
  const DType from = context.type(x).dtype;
  const Config& name = call.option("dtype");
  if (!name.is_string()) call.refuse("a type", name.to_json());
  const DType to = parse_dtype(name.as_string());
  const bool narrow = to == DType::kBool || to == DType::kUInt8 || to == DType::kInt8;
  if (!is_floating(from) && !narrow) {
    // Keras's bounds of such a type are no numbers of the other, and its results a processor's.
    const bool wide = from == DType::kInt32 || from == DType::kInt64;
    if (wide && from != to && to != DType::kInt64) {
      call.refuse("int8, uint8 or bool from integers", std::string(to_string(to)),
                  "Cast the values by ops.cast.");
    }
    return {as_dtype(context, x, to)};  // every number of the one is one of the other
  }
  // Numbers that float32 would round lie far beyond what is narrow.
  x = clamped(context, as_real(context, x), bound_of(to, true), bound_of(to, false));
  return {as_dtype(context, x, to)};
}

constexpr OperationRow kRows[] = {
    {"Angle", of_complex},
    {"Arctan2", binary},
    {"Conjugate", of_complex},
    {"Copy", unchanged},
    {"Deg2rad", scaled_only},
    {"Digitize", digitize},
    {"DivideNoNan", divide_no_nan},
    {"EmptyLike", full_like},
    {"FloorDivide", binary},
    {"Fmax", extremum_of_numbers},
    {"Fmin", extremum_of_numbers},
    {"Fmod", binary},
    {"FullLike", full_like},
    {"Heaviside", heaviside},
    {"Hypot", binary},
    {"Imag", of_complex},
    {"IsIn", is_in},
    {"Isclose", is_close},
    {"Isfinite", classified},
    {"Isinf", classified},
    {"Isnan", classified},
    {"Isneginf", classified},
    {"Isposinf", classified},
    {"Isreal", all_true},
    {"Ldexp", load_exponent},
    {"SaturateCast", saturated},
    {"Signbit", sign_bit},
    {"Logaddexp", binary},
    {"Logaddexp2", binary},
    {"Mod", binary},
    {"NanToNum", nan_to_num},
    {"Nextafter", next_after},
    {"Rad2deg", scaled_only},
    {"Real", of_complex},
    {"Round", round_to},
    {"SearchSorted", digitize},
    {"Select", select_first},
    {"StopGradient", stopped},
    {"Vander", powers},
};

}  // namespace

std::span<const OperationRow> map_operations() { return kRows; }

}  // namespace plimsoll::layers
