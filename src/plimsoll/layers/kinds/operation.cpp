// Operation: an operator of keras.ops between layers of a Functional model (`x + 1`, `x[:, -1]`).
//
// Its configuration has the operator's class name as "operation" and the operator's own options;
// operands come with the call. What works across samples is refused.

#include "layers/kinds/operation.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/suggest.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation_call.h"
#include "layers/kinds/operation_reduce.h"
#include "layers/kinds/softmax.h"
#include "layers/model/call_arguments.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

// Operators that are one elementwise activation.
struct Unary {
  std::string_view operation;
  std::string_view kind;
};
constexpr std::array kUnary = {
    Unary{"Celu", "celu"},
    Unary{"Elu", "elu"},
    Unary{"Exp", "exponential"},
    Unary{"Gelu", "gelu"},
    Unary{"HardShrink", "hard_shrink"},
    Unary{"HardSigmoid", "hard_sigmoid"},
    Unary{"HardSilu", "hard_silu"},
    Unary{"HardTanh", "hard_tanh"},
    Unary{"LeakyRelu", "leaky_relu"},
    Unary{"LogSigmoid", "log_sigmoid"},
    Unary{"Mish", "mish"},
    Unary{"ReLU", "relu"},
    Unary{"Relu", "relu"},
    Unary{"Relu6", "relu6"},
    Unary{"Selu", "selu"},
    Unary{"Sigmoid", "sigmoid"},
    Unary{"Silu", "silu"},
    Unary{"SoftShrink", "soft_shrink"},
    Unary{"Softplus", "softplus"},
    Unary{"Softsign", "softsign"},
    Unary{"SparsePlus", "sparse_plus"},
    Unary{"SparseSigmoid", "sparse_sigmoid"},
    Unary{"Squareplus", "squareplus"},
    Unary{"Tanh", "tanh"},
    Unary{"TanhShrink", "tanh_shrink"},
    Unary{"Threshold", "threshold"},
};

struct Named {
  std::string_view operation;
  std::string_view op;
};
constexpr std::array kBinary = {
    Named{"Add", "add"},           Named{"Divide", "divide"},     Named{"Maximum", "maximum"},
    Named{"Minimum", "minimum"},   Named{"Multiply", "multiply"}, Named{"Subtract", "subtract"},
    Named{"TrueDivide", "divide"},
};
// Functions of one number that are no activations.
constexpr std::array kMath = {
    Named{"Abs", "abs"},
    Named{"Absolute", "abs"},
    Named{"Arccos", "arccos"},
    Named{"Arccosh", "arccosh"},
    Named{"Arcsin", "arcsin"},
    Named{"Arcsinh", "arcsinh"},
    Named{"Arctan", "arctan"},
    Named{"Arctanh", "arctanh"},
    Named{"Cbrt", "cbrt"},
    Named{"Ceil", "ceil"},
    Named{"Cos", "cos"},
    Named{"Cosh", "cosh"},
    Named{"Erf", "erf"},
    Named{"Erfc", "erfc"},
    Named{"Erfinv", "erfinv"},
    Named{"Exp2", "exp2"},
    Named{"Expm1", "expm1"},
    Named{"Fabs", "abs"},
    Named{"Floor", "floor"},
    Named{"I0", "i0"},
    Named{"Log", "log"},
    Named{"Log10", "log10"},
    Named{"Log1p", "log1p"},
    Named{"Log2", "log2"},
    Named{"Reciprocal", "reciprocal"},
    Named{"Rsqrt", "rsqrt"},
    Named{"Sign", "sign"},
    Named{"Sin", "sin"},
    Named{"Sinc", "sinc"},
    Named{"Sinh", "sinh"},
    Named{"Sqrt", "sqrt"},
    Named{"Tan", "tan"},
    Named{"Trunc", "trunc"},
};
constexpr std::array kReductions = {
    Named{"All", "all"},   Named{"Any", "any"},     Named{"Max", "maximum"},
    Named{"Mean", "mean"}, Named{"Min", "minimum"}, Named{"Sum", "sum"},
};
constexpr std::array kCompare = {
    Named{"Equal", "equal"},
    Named{"Greater", "greater"},
    Named{"GreaterEqual", "greater_equal"},
    Named{"Less", "less"},
    Named{"LessEqual", "less_equal"},
    Named{"NotEqual", "not_equal"},
};
constexpr std::array kLogical = {
    Named{"LogicalAnd", "and"},
    Named{"LogicalNot", "not"},
    Named{"LogicalOr", "or"},
    Named{"LogicalXor", "xor"},
};
constexpr std::array<std::string_view, 15> kOthers = {
    "Cast",     "Clip",       "Concatenate", "ConvertToTensor", "Glu",
    "Identity", "LogSoftmax", "Negative",    "OnesLike",        "Power",
    "Reshape",  "Softmax",    "Square",      "Stack",           "Transpose"};
constexpr std::string_view kWhere = "Where";
constexpr std::string_view kZerosLike = "ZerosLike";
// What any of them may have for an option.
constexpr const char* kOptions[] = {"N",
                                    "alpha",
                                    "approximate",
                                    "attn_logits_soft_cap",
                                    "axes",
                                    "axis",
                                    "axis1",
                                    "axis2",
                                    "axisa",
                                    "axisb",
                                    "axisc",
                                    "b",
                                    "block_size",
                                    "center",
                                    "compute_uv",
                                    "data_format",
                                    "decimals",
                                    "default_value",
                                    "destination",
                                    "dilation",
                                    "dilation_rate",
                                    "dtype",
                                    "dx",
                                    "epsilon",
                                    "equal_nan",
                                    "fft_length",
                                    "from_logits",
                                    "full_matrices",
                                    "increasing",
                                    "indices_or_sections",
                                    "invert",
                                    "is_causal",
                                    "k",
                                    "keepdims",
                                    "kernel_size",
                                    "length",
                                    "lower",
                                    "mask_index",
                                    "max_value",
                                    "method",
                                    "mode",
                                    "n",
                                    "nan",
                                    "negative_slope",
                                    "neginf",
                                    "newshape",
                                    "num_classes",
                                    "offset",
                                    "ord",
                                    "order",
                                    "output_size",
                                    "pad_width",
                                    "padding",
                                    "pool_size",
                                    "posinf",
                                    "rcond",
                                    "repeats",
                                    "rms_scaling",
                                    "sequence_length",
                                    "sequence_stride",
                                    "shape",
                                    "shift",
                                    "side",
                                    "source",
                                    "sparse",
                                    "stride",
                                    "strides",
                                    "subscripts",
                                    "threshold",
                                    "tol",
                                    "upper",
                                    "window",
                                    "x",
                                    "x_max",
                                    "x_min"};
// What says nothing here, and may stand in a file: whether NumPy may count on sorted or distinct
// numbers, whether replicas wait for each other, which of several kernels is preferred.
constexpr const char* kIgnored[] = {"assume_unique", "flash_attention", "num", "sorted",
                                    "synchronized"};
// None of Keras's: a value, and the mask that a caller gave for it
// (formats/keras/keras_tree_expand.cpp).
constexpr std::string_view kWithMask = "WithMask";

template <size_t N>
std::string_view find(const std::array<Named, N>& table, std::string_view operation) {
  for (const Named& row : table) {
    if (row.operation == operation) return row.op;
  }
  return {};
}

// Operators that lie in files of their own.
std::array<std::span<const OperationRow>, 12> families() {
  return {fold_operations(),  integer_operations(), item_operations(),     loss_operations(),
          map_operations(),   matrix_operations(),  move_operations(),     network_operations(),
          order_operations(), product_operations(), spectrum_operations(), window_operations()};
}

MakeOperation find_family(std::string_view operation) {
  for (std::span<const OperationRow> rows : families()) {
    for (const OperationRow& row : rows) {
      if (row.operation == operation) return row.make;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  names.reserve(kUnary.size());
  for (const Unary& row : kUnary) names.emplace_back(row.operation);
  const auto add = [&](const auto& table) {
    for (const auto& row : table) names.emplace_back(row.operation);
  };
  add(kBinary);
  add(kMath);
  add(kReductions);
  add(kCompare);
  add(kLogical);
  names.emplace_back(kWhere);
  names.emplace_back(kZerosLike);
  for (std::span<const OperationRow> rows : families()) {
    for (const OperationRow& row : rows) names.emplace_back(row.operation);
  }
  names.insert(names.end(), kOthers.begin(), kOthers.end());
  std::ranges::sort(names);
  return names;
}

namespace {

class Operation final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Operation";

  explicit Operation(ConfigReader& reader) : Layer(kClassName, reader.text("name")) {
    operation_ = reader.text("operation");
    const std::vector<std::string> known = operation_names();
    if (operation_ != kWithMask && std::ranges::find(known, operation_) == known.end()) {
      reader.refuse("operation", "an operator that Plimsoll trains", operation_,
                    "Build this part of the model with layers." + did_you_mean(operation_, known));
    }
    for (const char* key : kOptions) {
      const Config given = reader.legacy(key);
      if (given.is_null()) continue;
      reader.complete(key, given);
      options_.set(key, given);
    }
    for (const char* key : kIgnored) {
      const Config given = reader.legacy(key);
      if (!given.is_null()) reader.complete(key, given);
    }
  }

  // Of two operands neither may be an array, which lies in one way alone.
  bool elementwise_call(const Config& record) const override {
    if (std::ranges::find(kUnary, operation_, &Unary::operation) != kUnary.end()) return true;
    if (!find(kMath, operation_).empty()) return true;
    if (find(kBinary, operation_).empty()) return false;
    if (record.is_null()) return true;
    const Config* args = record.find("args");
    return args != nullptr && args->is_array() && args->as_array().size() == 2 &&
           std::ranges::all_of(args->as_array(), [](const Config& each) {
             return each.is_number() || tensor_index(each) >= 0;
           });
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    std::vector<std::string> names;
    const std::vector<Config> arguments = read_arguments(context, inputs.size(), names);
    if (const MakeOperation make = find_family(operation_)) {
      return make(OperationCall(context, operation_, inputs, arguments, names, options_));
    }
    for (const Unary& row : kUnary) {
      if (row.operation == operation_) return {unary(context, inputs, row.kind)};
    }
    if (const auto op = find(kBinary, operation_); !op.empty()) {
      return {binary(context, inputs, arguments, op)};
    }
    if (const auto kind = find(kCompare, operation_); !kind.empty()) {
      return {compare(context, inputs, arguments, kind)};
    }
    if (const auto kind = find(kLogical, operation_); !kind.empty()) {
      return {logical(context, inputs, arguments, kind)};
    }
    if (const auto kind = find(kMath, operation_); !kind.empty()) {
      return {math(context, only(context, inputs), {{"kind", std::string(kind)}})};
    }
    if (const auto kind = find(kReductions, operation_); !kind.empty()) {
      return {reduce(context, only(context, inputs), kind)};
    }
    if (operation_ == "Power" || operation_ == kWhere) {
      return {of_operands(context, inputs, arguments)};
    }
    return {other(context, inputs)};
  }

 private:
  // The call's positional arguments, then the others in order with their names; the inputs where
  // there is no record.
  static std::vector<Config> read_arguments(const LayerContext& context, size_t count,
                                            std::vector<std::string>& names) {
    std::vector<Config> arguments;
    const Config& record = context.arguments();
    if (record.is_null()) {
      for (size_t i = 0; i < count; ++i) arguments.push_back(tensor_argument(i));
      names.resize(count);
      return arguments;
    }
    const Config* args = record.find("args");
    if (args != nullptr && args->is_array()) arguments = args->as_array();
    names.resize(arguments.size());
    const Config* kwargs = record.find("kwargs");
    if (kwargs != nullptr && kwargs->is_object()) {
      for (const auto& [key, value] : kwargs->as_object()) {
        names.push_back(key);
        arguments.push_back(value);
      }
    }
    return arguments;
  }

  const Config& option(std::string_view key) const {
    static const Config none;
    const Config* value = options_.find(key);
    return value == nullptr ? none : *value;
  }

  ValueId only(const LayerContext& context, std::span<const ValueId> inputs) const {
    if (inputs.size() != 1) context.refuse("one input", std::to_string(inputs.size()), "");
    return inputs[0];
  }

  static bool flag_of(const Config& value) { return value.is_bool() && value.as_bool(); }

  ValueId unary(LayerContext& context, std::span<const ValueId> inputs,
                std::string_view kind) const {
    const ValueId x = only(context, inputs);
    Attributes attributes{{"kind", std::string(kind)}};
    for (const char* key :
         {"negative_slope", "alpha", "threshold", "b", "max_value", "default_value"}) {
      if (option(key).is_number()) attributes.set(key, option(key).as_double());
    }
    if (option("approximate").is_bool())
      attributes.set("approximate", flag_of(option("approximate")));
    if (kind == "gelu" && option("approximate").is_null()) attributes.set("approximate", true);
    const ValueId y = context.emit("activation", {x}, attributes);
    if (kind == "sigmoid") context.remember_logits(y, x, Probabilities::kSigmoid);
    return y;
  }

  Operand operand(LayerContext& context, std::span<const ValueId> inputs, const Config& argument,
                  DType dtype) const {
    const int64_t index = tensor_index(argument);
    if (index < 0) return constant_operand(context, argument, dtype);
    if (index >= static_cast<int64_t>(inputs.size())) context.refuse("an input", "none", "");
    return {inputs[static_cast<size_t>(index)], std::nullopt};
  }

  void expect_two(const LayerContext& context, const std::vector<Config>& arguments) const {
    if (arguments.size() == 2) return;
    context.refuse("two operands of " + operation_, std::to_string(arguments.size()), "");
  }

  ValueId binary(LayerContext& context, std::span<const ValueId> inputs,
                 const std::vector<Config>& arguments, std::string_view op) const {
    expect_two(context, arguments);
    const Operand left = operand(context, inputs, arguments[0], DType::kFloat32);
    const Operand right = operand(context, inputs, arguments[1], DType::kFloat32);
    if (right.number || left.number) {
      const ValueId x = right.number ? left.value : right.value;
      const Config& number = arguments[right.number ? 1 : 0];
      if (const ValueId y = with_number(context, x, left, right, op); y.valid()) {
        return number.is_int() ? integers_of(context, y, op, {x, x}) : y;
      }
    }
    ValueId a = as_value(context, left, DType::kFloat32);
    ValueId b = as_value(context, right, DType::kFloat32);
    const std::array<ValueId, 2> given = {a, b};
    a = as_real(context, a);
    b = as_real(context, b);
    broadcast_together(context, a, b);
    return integers_of(context, context.emit(op, {a, b}), op, given);
  }

  // What was computed of integers by float32 (exact up to 2^24) is integers again, but a quotient.
  static ValueId integers_of(LayerContext& context, ValueId y, std::string_view op,
                             const std::array<ValueId, 2>& operands) {
    const DType left = context.type(operands[0]).dtype;
    const DType right = context.type(operands[1]).dtype;
    if (op == "divide" || !is_integer(left) || !is_integer(right)) return y;
    const bool wide = left == DType::kInt64 || right == DType::kInt64;
    const DType wanted = left == right ? left : wide ? DType::kInt64 : DType::kInt32;
    return context.emit("cast", {y}, {{"dtype", std::string(to_string(wanted))}});
  }

  // x combined with a number by one multiplication and addition; invalid where that is not enough.
  static ValueId with_number(LayerContext& context, ValueId x, const Operand& left,
                             const Operand& right, std::string_view op) {
    if (!is_floating(context.type(x).dtype)) {
      x = context.emit("cast", {x}, {{"dtype", "float32"}});
    }
    const double number = left.number ? *left.number : *right.number;
    double scale = 1;
    double offset = 0;
    if (op == "add") {
      offset = number;
    } else if (op == "subtract") {
      scale = left.number ? -1 : 1;
      offset = left.number ? number : -number;
    } else if (op == "multiply") {
      scale = number;
    } else if (op == "divide" && right.number && number != 0) {
      scale = 1.0 / number;
    } else {
      return ValueId();
    }
    return context.emit("scale_shift", {x}, {{"scale", scale}, {"offset", offset}});
  }

  static ValueId math(LayerContext& context, ValueId x, Attributes attributes) {
    return context.emit("unary", {as_real(context, x)}, std::move(attributes));
  }

  ValueId of_operands(LayerContext& context, std::span<const ValueId> inputs,
                      const std::vector<Config>& arguments) const {
    if (operation_ == kWhere) return where(context, inputs, arguments);
    expect_two(context, arguments);
    const Operand left = operand(context, inputs, arguments[0], DType::kFloat32);
    const Operand right = operand(context, inputs, arguments[1], DType::kFloat32);
    if (right.number && !left.number) {
      return math(context, left.value, {{"kind", "power"}, {"exponent", *right.number}});
    }
    ValueId a = as_real(context, as_value(context, left, DType::kFloat32));
    ValueId b = as_real(context, as_value(context, right, DType::kFloat32));
    broadcast_together(context, a, b);
    return context.emit("binary", {a, b}, {{"kind", "power"}});
  }

  ValueId where(LayerContext& context, std::span<const ValueId> inputs,
                const std::vector<Config>& arguments) const {
    if (arguments.size() != 3) {
      context.refuse("a condition and two values", fmt::format("{} operands", arguments.size()),
                     "");
    }
    ValueId condition = as_bool(
        context,
        as_value(context, operand(context, inputs, arguments[0], DType::kBool), DType::kBool));
    std::array<ValueId, 2> values;
    for (size_t i = 0; i < 2; ++i) {
      const Operand one = operand(context, inputs, arguments[i + 1], DType::kFloat32);
      values[i] = as_real(context, as_value(context, one, DType::kFloat32));
    }
    broadcast_together(context, values[0], values[1]);
    stretch_together(context, condition, values[0]);
    stretch_together(context, values[1], values[0]);
    return context.emit("select", {values[0], values[1], condition});
  }

  // As NumPy has it, of values of any type: numbers count where they are not zero.
  ValueId logical(LayerContext& context, std::span<const ValueId> inputs,
                  const std::vector<Config>& arguments, std::string_view kind) const {
    std::vector<ValueId> operands;
    for (const Config& argument : arguments) {
      const Operand one = operand(context, inputs, argument, DType::kBool);
      operands.push_back(as_bool(context, as_value(context, one, DType::kBool)));
    }
    if (operands.size() != (kind == "not" ? 1 : 2)) {
      context.refuse(kind == "not" ? "one operand" : "two operands",
                     std::to_string(operands.size()), "");
    }
    if (operands.size() == 2) stretch_together(context, operands[0], operands[1]);
    return context.emit("logical", operands, {{"kind", std::string(kind)}});
  }

  // x, everywhere that number.
  ValueId filled(LayerContext& context, ValueId x, double number) const {
    const ValueType type = context.type(x);
    std::string dtype(to_string(type.dtype));
    if (option("dtype").is_string()) dtype = option("dtype").as_string();
    if (dtype != "bool" && !is_integer(parse_dtype(dtype))) dtype = "float32";
    const ValueId one =
        context.emit("constant", {},
                     {{"shape", std::vector<int64_t>{}}, {"value", number}, {"dtype", "float32"}});
    const ValueId all = over_batch(context, one, type.shape);
    return dtype == "float32" ? all : context.emit("cast", {all}, {{"dtype", dtype}});
  }

  ValueId clip(LayerContext& context, ValueId x) const {
    x = as_real(context, x);
    for (const char* bound : {"x_max", "x_min"}) {
      if (!option(bound).is_number()) {
        context.refuse("numbers as bounds", option(bound).to_json(), "Compute it by layers.");
      }
    }
    return clamped(context, x, option("x_min").as_double(), option("x_max").as_double());
  }

  ValueId compare(LayerContext& context, std::span<const ValueId> inputs,
                  const std::vector<Config>& arguments, std::string_view kind) const {
    expect_two(context, arguments);
    const DType type = context.type(only_tensor(context, inputs)).dtype;
    const DType dtype = type == DType::kBFloat16 ? DType::kFloat32 : type;
    const Operand left = operand(context, inputs, arguments[0], dtype);
    const Operand right = operand(context, inputs, arguments[1], dtype);
    if (right.number && left.value.valid()) {
      return context.emit("compare", {left.value},
                          {{"kind", std::string(kind)}, {"value", *right.number}});
    }
    ValueId a = as_value(context, left, dtype);
    ValueId b = as_value(context, right, dtype);
    broadcast_together(context, a, b);
    return context.emit("compare", {a, b}, {{"kind", std::string(kind)}});
  }

  static ValueId only_tensor(const LayerContext& context, std::span<const ValueId> inputs) {
    if (inputs.empty()) context.refuse("an operand that is computed", "constants", "");
    return inputs[0];
  }

  ValueId other(LayerContext& context, std::span<const ValueId> inputs) const {
    if (operation_ == "Concatenate" || operation_ == "Stack") return join(context, inputs);
    if (operation_ == kWithMask) {
      if (inputs.size() != 2) context.refuse("a value and a mask", "another call", "");
      context.set_mask(0, as_bool(context, inputs[1]));
      context.put_mask_on(inputs[0]);
      return inputs[0];
    }
    const ValueId x = only(context, inputs);
    const ValueType type = context.type(x);
    const Shape& shape = type.shape;
    if (operation_ == "Identity") return x;
    if (operation_ == "OnesLike") return filled(context, x, 1);
    if (operation_ == kZerosLike) return filled(context, x, 0);
    if (operation_ == "Clip") return clip(context, x);
    if (operation_ == "Cast" || operation_ == "ConvertToTensor") {
      const bool named = option("dtype").is_string();
      const bool same = named ? option("dtype").as_string() == to_string(type.dtype)
                              : operation_ == "ConvertToTensor";
      // What changes nothing is the same tensor, with its mask.
      if (same) context.set_mask(0, context.mask(0));
      if (same) return x;
      const std::string dtype = named ? option("dtype").as_string() : "";
      return context.emit("cast", {x}, {{"dtype", dtype}});
    }
    if (operation_ == "Negative") {
      return context.emit("scale_shift", {x}, {{"scale", -1.0}, {"offset", 0.0}});
    }
    if (operation_ == "Square") return context.emit("multiply", {x, x});
    if (operation_ == "Softmax" || operation_ == "LogSoftmax") return softmax(context, x);
    if (operation_ == "Glu") {
      const Config axis = option("axis").is_null() ? Config(-1) : option("axis");
      return context.emit("glu", {x}, {{"axis", axis_of(context, axis, shape.rank())}});
    }
    if (operation_ == "Transpose") return transpose(context, x);
    return reshape(context, x);
  }

  ValueId softmax(LayerContext& context, ValueId x) const {
    std::vector<int64_t> axes = {-1};
    if (option("axis").is_int()) axes = {option("axis").as_int()};
    return softmax_along(context, as_real(context, x), axes,
                         operation_ == "LogSoftmax" ? "log_softmax" : "softmax");
  }

  int64_t axis_of(const LayerContext& context, const Config& given, int rank) const {
    if (!given.is_int()) context.refuse("one axis", given.to_json(), "");
    const int64_t axis = given.as_int() < 0 ? given.as_int() + rank : given.as_int();
    if (axis < 1 || axis >= rank) {
      context.refuse("an axis after the batch", given.to_json(), "Samples are not mixed.");
    }
    return axis;
  }

  ValueId join(LayerContext& context, std::span<const ValueId> inputs) const {
    if (inputs.empty()) context.refuse("one or more values", "none", "");
    const bool stacks = operation_ == "Stack";
    const int rank = context.type(inputs[0]).shape.rank() + (stacks ? 1 : 0);
    const int64_t axis = axis_of(context, option("axis"), rank);
    std::vector<ValueId> parts(inputs.begin(), inputs.end());
    for (ValueId& part : parts) {
      if (!stacks) break;
      std::vector<int64_t> dims = context.type(part).shape.at(1);
      dims.erase(dims.begin());
      dims.insert(dims.begin() + (axis - 1), 1);
      part = context.emit("reshape", {part}, {{"shape", dims}});
    }
    return parts.size() == 1 ? parts[0] : context.emit("concat", parts, {{"axis", axis}});
  }

  ValueId reduce(LayerContext& context, ValueId x, std::string_view kind) const {
    const int rank = context.type(x).shape.rank();
    Config::Array given;
    if (option("axis").is_array()) given = option("axis").as_array();
    if (option("axis").is_int()) given.push_back(option("axis"));
    if (given.empty()) {
      context.refuse("axes after the batch", option("axis").to_json(),
                     "Samples are not mixed: name the axes to fold.");
    }
    std::vector<int64_t> axes;
    for (const Config& axis : given) axes.push_back(axis_of(context, axis, rank));
    return reduce_axes(context, x, axes, flag_of(option("keepdims")), kind);
  }

  ValueId transpose(LayerContext& context, ValueId x) const {
    const int rank = context.type(x).shape.rank();
    std::vector<int64_t> permutation;
    if (option("axes").is_array()) {
      for (const Config& axis : option("axes").as_array()) permutation.push_back(axis.as_int());
    }
    if (static_cast<int>(permutation.size()) != rank || permutation[0] != 0) {
      context.refuse("axes that leave the batch first", option("axes").to_json(),
                     "Permute the axes after it.");
    }
    permutation.erase(permutation.begin());
    return context.emit("transpose", {x}, {{"permutation", permutation}});
  }

  ValueId reshape(LayerContext& context, ValueId x) const {
    return context.emit("reshape", {x}, {{"shape", new_shape(context, context.type(x).shape)}});
  }

  // The batch stays in front: the first entry is −1, null, or the rest fills a sample.
  std::vector<int64_t> new_shape(const LayerContext& context, const Shape& shape) const {
    const Config& given = option("newshape");
    std::vector<int64_t> dims;
    int64_t known = 1;
    int unknown = -1;
    if (given.is_array()) {
      for (size_t i = 1; i < given.as_array().size(); ++i) {
        const Config& dim = given.as_array()[i];
        dims.push_back(dim.is_int() ? dim.as_int() : -1);
        if (dims.back() == -1) {
          unknown = static_cast<int>(i) - 1;
        } else {
          known *= dims.back();
        }
      }
    }
    const int64_t elements = shape.elements_per_sample();
    if (unknown >= 0 && known > 0) dims[static_cast<size_t>(unknown)] = elements / known;
    const int64_t filled = unknown >= 0 ? elements / std::max<int64_t>(known, 1) * known : known;
    if (dims.empty() || filled != elements) {
      context.refuse(fmt::format("a shape of {} elements after the batch", elements),
                     given.to_json(), "Samples are not mixed.");
    }
    return dims;
  }

  std::string operation_;
  Config options_;
};

}  // namespace

std::shared_ptr<const Layer> make_operation(const Config& config) {
  return construct_layer<Operation>(config);
}

}  // namespace plimsoll::layers
