// Products of matrices and vectors, in Einstein's notation.

#include <algorithm>

#include "base/format.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;
using Dims = std::vector<int64_t>;

constexpr std::string_view kNotMixed = "Samples are not mixed.";

struct Pair {
  ValueId left;
  ValueId right;
};

ValueId value_of(const OperationCall& call, size_t position, std::string_view name) {
  const Operand one = call.operand(call.argument(position, name));
  if (one.number) call.refuse("an array or a value", "a number");
  return as_real(call.context(), one.value);
}

Pair two_values(const OperationCall& call) {
  return {value_of(call, 0, "x1"), value_of(call, 1, "x2")};
}

Shape shape_of(const OperationCall& call, ValueId x) { return call.context().type(x).shape; }

// Names that many axes by letters, beginning with one.
std::string letters(int count, char from) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>(from + i);
  return text;
}

Values einsum_call(const OperationCall& call) {
  const Config& subscripts = call.option("subscripts");
  if (!subscripts.is_string()) call.refuse("subscripts", subscripts.to_json());
  Values operands;
  for (size_t i = 0; i < call.argument_count(); ++i) operands.push_back(value_of(call, i, ""));
  return {einsum(call.context(), subscripts.as_string(), operands)};
}

// Drops leading axes of extent 1 of a constant, those of its matrix aside, that repeat along axes
// of the other value, which has that rank.
ValueId without_ones(LayerContext& context, ValueId x, int rank) {
  const Shape shape = context.type(x).shape;
  if (shape.has_batch() || shape.rank() > rank) return x;
  const Dims dims = shape.at(1);
  auto first = dims.begin();
  while (dims.end() - first > 2 && *first == 1) ++first;
  if (first == dims.begin()) return x;
  return context.emit("reshape", {x}, {{"shape", Dims(first, dims.end())}});
}

// Repeats leading axes of extent 1 into the other value's.
void stretch_leading(const OperationCall& call, Pair& pair) {
  const Shape left = shape_of(call, pair.left);
  const Shape right = shape_of(call, pair.right);
  if (!left.has_batch() || !right.has_batch() || left.rank() != right.rank()) return;
  Dims a = dims_of(call.context(), pair.left);
  Dims b = dims_of(call.context(), pair.right);
  for (size_t d = 0; d + 2 < a.size(); ++d) {
    const int64_t wide = std::max(a[d], b[d]);
    if ((a[d] != wide && a[d] != 1) || (b[d] != wide && b[d] != 1)) {
      call.refuse("shapes that repeat into each other",
                  fmt::format("{} and {}", to_string(left), to_string(right)));
    }
    a[d] = b[d] = wide;
  }
  product_of(call.context(), a);
  product_of(call.context(), b);
  const auto stretch = [&](ValueId x, const Dims& dims) {
    if (dims_of(call.context(), x) == dims) return x;
    return call.context().emit("broadcast", {x}, {{"shape", dims}});
  };
  pair = {stretch(pair.left, a), stretch(pair.right, b)};
}

// Multiplies as NumPy's matmul does: the last two axes are matrices, the others lie side by side.
Values matmul(const OperationCall& call) {
  LayerContext& context = call.context();
  Pair pair = two_values(call);
  pair.left = without_ones(context, pair.left, shape_of(call, pair.right).rank());
  pair.right = without_ones(context, pair.right, shape_of(call, pair.left).rank());
  stretch_leading(call, pair);
  const Shape left = shape_of(call, pair.left);
  const Shape right = shape_of(call, pair.right);
  // A sample's own axes, those of its matrix aside; the batch is one of the leading axes.
  const int left_leading = std::max(0, left.rank() - 2);
  const int right_leading = std::max(0, right.rank() - 2);
  const bool both = left.has_batch() && right.has_batch();
  const bool fits = both ? left.rank() == right.rank() && left.rank() > 2
                         : (left.has_batch() ? left_leading > right_leading || right_leading == 0
                                             : right_leading > left_leading);
  if (!fits || left.rank() > 9 || right.rank() > 9) {
    call.refuse("matrices of samples, or of one and constants",
                fmt::format("{} and {}", to_string(left), to_string(right)), kNotMixed);
  }
  const int most = std::max(left_leading, right_leading);
  const std::string leading = letters(most, 'a');
  const auto own = [&](int count) {
    return leading.substr(leading.size() - static_cast<size_t>(count));
  };
  const std::string rows = left.rank() > 1 ? "m" : "";
  const std::string columns = right.rank() > 1 ? "n" : "";
  // A batched value of rank 2 is a row for each sample: its batch is the row's axis.
  const std::string a = own(left_leading) + rows + "k";
  const std::string b = own(right_leading) + "k" + columns;
  const Values operands = {pair.left, pair.right};
  return {einsum(context, a + "," + b + "->" + leading + rows + columns, operands)};
}

// Sums over axes of the left value that are paired with axes of the right one.
ValueId paired(const OperationCall& call, const Pair& pair, const Dims& left_axes,
               const Dims& right_axes) {
  const int left_rank = shape_of(call, pair.left).rank();
  const int right_rank = shape_of(call, pair.right).rank();
  if (left_rank > 9 || right_rank > 9 || left_axes.size() != right_axes.size()) {
    call.refuse("as many axes of one as of the other", call.option("axes").to_json());
  }
  std::string a = letters(left_rank, 'a');
  std::string b = letters(right_rank, 'n');
  std::string result = a;
  std::string rest = b;
  for (size_t i = 0; i < left_axes.size(); ++i) {
    const int64_t l = left_axes[i] < 0 ? left_axes[i] + left_rank : left_axes[i];
    const int64_t r = right_axes[i] < 0 ? right_axes[i] + right_rank : right_axes[i];
    if (l < 0 || l >= left_rank || r < 0 || r >= right_rank) {
      call.refuse("axes of both values", call.option("axes").to_json());
    }
    const char axis = a[static_cast<size_t>(l)];
    const char other = b[static_cast<size_t>(r)];
    if (other < 'n') call.refuse("each axis once", call.option("axes").to_json());
    b[static_cast<size_t>(r)] = axis;
    std::erase(result, axis);
    std::erase(rest, other);
  }
  const Values operands = {pair.left, pair.right};
  return einsum(call.context(), a + "," + b + "->" + result + rest, operands);
}

Values tensordot(const OperationCall& call) {
  const Pair pair = two_values(call);
  const Config& axes = call.option("axes");
  const int left_rank = shape_of(call, pair.left).rank();
  Dims left;
  Dims right;
  if (axes.is_int()) {
    const int64_t count = call.integer("axes", 0, left_rank);
    for (int64_t i = 0; i < count; ++i) {
      left.push_back(left_rank - count + i);
      right.push_back(i);
    }
  } else if (axes.is_array() && axes.as_array().size() == 2) {
    for (size_t side = 0; side < 2; ++side) {
      const Config& given = axes.as_array()[side];
      const Config::Array list = given.is_array() ? given.as_array() : Config::Array{given};
      for (const Config& one : list) {
        if (!one.is_int()) call.refuse("integers as axes", axes.to_json());
        (side == 0 ? left : right).push_back(one.as_int());
      }
    }
  } else {
    call.refuse("a number of axes, or two lists of them", axes.to_json());
  }
  return {paired(call, pair, left, right)};
}

Values dot(const OperationCall& call) {
  const Pair pair = two_values(call);
  const bool inner = call.operation() == "Inner" || shape_of(call, pair.right).rank() == 1;
  return {paired(call, pair, {-1}, {inner ? -1 : -2})};
}

// Multiplies vectors of three numbers, which lie in the last axis.
Values cross(const OperationCall& call) {
  LayerContext& context = call.context();
  Pair pair = two_values(call);
  broadcast_together(context, pair.left, pair.right);
  const Shape shape = shape_of(call, pair.left);
  const int64_t last = shape.rank() - 1;
  for (const char* key : {"axis", "axisa", "axisb", "axisc"}) {
    if (call.option(key).is_null()) continue;
    if (call.axis(call.option(key), shape.rank()) != last) {
      call.refuse("the last axis", call.option(key).to_json(), "Move the axis first.");
    }
  }
  if (shape[static_cast<int>(last)].count != 3) {
    call.refuse("three numbers in the last axis", to_string(shape));
  }
  // (a₂b₃ − a₃b₂, …) takes both rotated by one place and by two.
  const auto rotated = [&](ValueId x, int64_t by) {
    return context.emit("concat",
                        {sliced(context, x, last, by, 3 - by), sliced(context, x, last, 0, by)},
                        {{"axis", last}});
  };
  const ValueId first = context.emit("multiply", {rotated(pair.left, 1), rotated(pair.right, 2)});
  const ValueId second = context.emit("multiply", {rotated(pair.left, 2), rotated(pair.right, 1)});
  return {context.emit("subtract", {first, second})};
}

// Measures how far each row of one matrix lies from each of the other.
Values distances(const OperationCall& call) {
  LayerContext& context = call.context();
  const Pair pair = two_values(call);
  Dims a = dims_of(context, pair.left);
  Dims b = dims_of(context, pair.right);
  const bool matrices = a.size() == 2 && b.size() == 2 && a[1] == b[1];
  if (!matrices || !shape_of(call, pair.left).has_batch() ||
      !shape_of(call, pair.right).has_batch()) {
    call.refuse("two matrices of rows as long for each sample", "others", kNotMixed);
  }
  const ValueId apart = combined(context, "subtract", reshaped(context, pair.left, {a[0], 1, a[1]}),
                                 reshaped(context, pair.right, {1, b[0], b[1]}));
  const ValueId squares = context.emit("multiply", {apart, apart});
  const ValueId sums =
      context.emit("sum_to", {squares}, {{"shape", Dims{a[0], b[0], 1}}, {"batched", true}});
  return {function_of(context, "sqrt", reshaped(context, sums, {a[0], b[0]}))};
}

constexpr OperationRow kRows[] = {
    {"CDist", distances},     {"Cross", cross}, {"Dot", dot},
    {"Einsum", einsum_call},  {"Inner", dot},   {"Matmul", matmul},
    {"Tensordot", tensordot},
};

}  // namespace

std::span<const OperationRow> product_operations() { return kRows; }

}  // namespace plimsoll::layers
