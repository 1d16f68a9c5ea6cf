// Bits, and divisors and multiples that integers have in common. Values of another integer type are
// taken to the wider one of the two; of bools the bits are what is true.

#include <algorithm>
#include <array>

#include "base/format.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;

struct Named {
  std::string_view operation;
  std::string_view kind;
  std::string_view of_bools;  // as logical has it; empty: there is none
};
constexpr std::array kNames = {
    Named{"BitwiseAnd", "bit_and", "and"},
    Named{"BitwiseLeftShift", "left_shift", ""},
    Named{"BitwiseOr", "bit_or", "or"},
    Named{"BitwiseRightShift", "right_shift", ""},
    Named{"BitwiseXor", "bit_xor", "xor"},
    Named{"Gcd", "gcd", ""},
    Named{"Lcm", "lcm", ""},
    Named{"LeftShift", "left_shift", ""},
    Named{"RightShift", "right_shift", ""},
};

Named named(const OperationCall& call) {
  for (const Named& row : kNames) {
    if (row.operation == call.operation()) return row;
  }
  call.refuse("an operator of integers", std::string(call.operation()));
}

DType dtype_of(const OperationCall& call, ValueId x) {
  const DType dtype = call.context().type(x).dtype;
  if (!is_integer(dtype) && dtype != DType::kBool) {
    call.refuse("integers", std::string(to_string(dtype)), "Cast them to int32 first.");
  }
  return dtype;
}

// NumPy's wider type of two.
DType wider(DType a, DType b) {
  if (a == b) return a;
  for (const DType wide : {DType::kInt64, DType::kInt32}) {
    if (a == wide || b == wide) return wide;
  }
  if (a == DType::kBool) return b;
  return b == DType::kBool ? a : DType::kInt32;
}

// That integer where the shape of `like` repeats it.
ValueId whole_number(LayerContext& context, ValueId like, DType dtype, double number) {
  const ValueId one = context.constant({dtype, {1}, {number}});
  return over_batch(context, one, context.type(like).shape);
}

Values pair(const OperationCall& call) {
  LayerContext& context = call.context();
  if (call.argument_count() != 2) {
    call.refuse("two operands", std::to_string(call.argument_count()));
  }
  const bool shared = call.operation() == "Gcd" || call.operation() == "Lcm";
  const Operand left = call.operand(call.argument(0, shared ? "x1" : "x"), DType::kInt32);
  const Operand right = call.operand(call.argument(1, shared ? "x2" : "y"), DType::kInt32);
  if (left.number && right.number) call.refuse("a value of the model", "two numbers");
  // A plain number takes the other operand's type.
  const auto value_of = [&](const Operand& one, const Operand& other) {
    if (!one.number) return one.value;
    return whole_number(context, other.value, dtype_of(call, other.value), *one.number);
  };
  ValueId a = value_of(left, right);
  ValueId b = value_of(right, left);
  const DType dtype = wider(dtype_of(call, a), dtype_of(call, b));
  const Named name = named(call);
  a = as_dtype(context, a, dtype);
  b = as_dtype(context, b, dtype);
  stretch_together(context, a, b);
  if (dtype != DType::kBool) {
    return {context.emit("integer_pair", {a, b}, {{"kind", std::string(name.kind)}})};
  }
  if (name.of_bools.empty()) call.refuse("integers", "bool", "Cast them to int32 first.");
  return {context.emit("logical", {a, b}, {{"kind", std::string(name.of_bools)}})};
}

// All bits but those that are set: exclusive or with −1, which has all.
Values inverted(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only();
  const DType dtype = dtype_of(call, x);
  if (dtype == DType::kBool) return {context.emit("logical", {x}, {{"kind", "not"}})};
  const ValueId all = whole_number(context, x, dtype, dtype == DType::kUInt8 ? 255 : -1);
  return {context.emit("integer_pair", {x, all}, {{"kind", "bit_xor"}})};
}

// The same bytes as another type's numbers. Integers have Keras's type here. What is float32 here
// may be float64 or bfloat16 there, or integers that an operator computed: it has other bytes.
Values viewed(const OperationCall& call) {
  LayerContext& context = call.context();
  const Config& given = call.option("dtype");
  const ValueId x = call.only();
  if (given.is_null()) return {x};
  if (const DType from = context.type(x).dtype; !is_integer(from)) {
    call.refuse("integers, of which the type that Keras has is kept", std::string(to_string(from)),
                "The type that Keras has is not kept for these values: view them outside of the "
                "model.");
  }
  const DType to = parse_dtype(given.as_string());
  const Shape& shape = context.type(x).shape;
  if (shape.rank() < 2) {
    call.refuse("several numbers for each sample", to_string(shape), "Reshape them first.");
  }
  return {context.emit("bitcast", {x}, {{"dtype", std::string(to_string(to))}})};
}

// Places along each of some axes from numbers of places. Keras goes through the axes from the last
// one for one number a sample, and from the first one for several.
Values unraveled(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId rest = call.only();
  const DType dtype = dtype_of(call, rest);
  std::vector<int64_t> shape = call.integers("shape");
  if (shape.empty() || *std::ranges::min_element(shape) < 1) {
    call.refuse("a shape", call.option("shape").to_json());
  }
  const bool single = context.type(rest).shape.rank() == 1;
  if (single) std::ranges::reverse(shape);
  Values places;
  for (const int64_t extent : shape) {
    const ValueId by = whole_number(context, rest, dtype, static_cast<double>(extent));
    const auto divided = [&](std::string_view kind) {
      return context.emit("integer_pair", {rest, by}, {{"kind", std::string(kind)}});
    };
    places.push_back(divided("floor_remainder"));
    rest = divided("floor_quotient");
  }
  std::ranges::reverse(places);
  return places;
}

constexpr OperationRow kRows[] = {
    {"BitwiseAnd", pair},
    {"BitwiseInvert", inverted},
    {"BitwiseLeftShift", pair},
    {"BitwiseNot", inverted},
    {"BitwiseOr", pair},
    {"BitwiseRightShift", pair},
    {"BitwiseXor", pair},
    {"Gcd", pair},
    {"Lcm", pair},
    {"LeftShift", pair},
    {"RightShift", pair},
    {"UnravelIndex", unraveled},
    {"View", viewed},
};

}  // namespace

std::span<const OperationRow> integer_operations() { return kRows; }

}  // namespace plimsoll::layers
