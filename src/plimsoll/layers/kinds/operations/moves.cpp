// Operators that move, cut, join and repeat: axes exchanged, parts taken, borders added.

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "layers/kinds/operation_call.h"
#include "layers/model/call_arguments.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;
using Dims = std::vector<int64_t>;

// Parts that one operator may give or take.
constexpr int64_t kMostParts = 4096;
constexpr std::string_view kNotMixed = "Samples are not mixed.";

int rank_of(const OperationCall& call, ValueId x) { return call.context().type(x).shape.rank(); }

int64_t extent(const OperationCall& call, ValueId x, int64_t axis) {
  return call.context().type(x).shape[static_cast<int>(axis)].count;
}

ValueId joined(LayerContext& context, Values parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : context.emit("concat", std::move(parts), {{"axis", axis}});
}

ValueId reversed(LayerContext& context, ValueId x, int64_t axis) {
  return context.emit("reverse", {x}, {{"axis", axis}});
}

// Repeats each place of an axis that many times, side by side, or (`whole`) all of them in a row.
ValueId repeated(LayerContext& context, ValueId x, int64_t axis, int64_t times, bool whole) {
  if (times == 1) return x;
  const Dims dims = dims_of(context, x);
  const auto at = static_cast<size_t>(axis - 1);
  const std::span<const int64_t> all(dims);
  const int64_t before = product_of(context, all.first(whole ? at : at + 1));
  const int64_t after = product_of(context, all.subspan(whole ? at : at + 1));
  const Dims wide = {before, times, after};
  product_of(context, wide);
  ValueId y = reshaped(context, x, {before, 1, after});
  y = context.emit("broadcast", {y}, {{"shape", wide}});
  Dims result = dims;
  result[at] *= times;
  return reshaped(context, y, result);
}

Values swap_axes(const OperationCall& call) {
  const ValueId x = call.only();
  const int rank = rank_of(call, x);
  std::vector<int64_t> order(static_cast<size_t>(rank - 1));
  std::iota(order.begin(), order.end(), 1);
  std::swap(order[static_cast<size_t>(call.axis(call.option("axis1"), rank) - 1)],
            order[static_cast<size_t>(call.axis(call.option("axis2"), rank) - 1)]);
  return {permuted(call.context(), x, order)};
}

Values move_axes(const OperationCall& call) {
  const ValueId x = call.only();
  const int rank = rank_of(call, x);
  const Dims from = call.integers("source");
  const Dims to = call.integers("destination");
  if (from.size() != to.size() || from.empty()) {
    call.refuse("as many axes to as from", call.option("destination").to_json());
  }
  std::vector<int64_t> order(static_cast<size_t>(rank - 1), 0);
  std::vector<bool> placed(static_cast<size_t>(rank), false);
  for (size_t i = 0; i < from.size(); ++i) {
    // The batch may be named where it stays.
    if (from[i] == 0 && to[i] == 0) continue;
    const int64_t source = call.axis(from[i], rank);
    int64_t& place = order[static_cast<size_t>(call.axis(to[i], rank) - 1)];
    if (place != 0 || placed[static_cast<size_t>(source)]) {
      call.refuse("each axis once", call.option("source").to_json());
    }
    place = source;
    placed[static_cast<size_t>(source)] = true;
  }
  int64_t next = 1;
  for (int64_t& place : order) {
    if (place != 0) continue;
    while (placed[static_cast<size_t>(next)]) ++next;
    place = next++;
  }
  return {permuted(call.context(), x, order)};
}

Values flip(const OperationCall& call) {
  ValueId x = call.only();
  const int rank = rank_of(call, x);
  const bool of_columns = call.operation() == "Fliplr";
  const Dims axes = of_columns ? Dims{call.axis(int64_t{1}, rank)} : call.axes(rank);
  for (int64_t axis : axes) x = reversed(call.context(), x, axis);
  return {x};
}

Values roll(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId x = call.only();
  const Dims shifts = call.integers("shift");
  const Dims axes = call.integers("axis");
  if (axes.empty() || (shifts.size() != axes.size() && shifts.size() != 1)) {
    call.refuse("a shift for each axis", call.option("shift").to_json(),
                "Name the axes: samples are not mixed.");
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = call.axis(axes[i], rank_of(call, x));
    const int64_t count = extent(call, x, axis);
    const int64_t shift = shifts[shifts.size() == 1 ? 0 : i] % count;
    const int64_t begin = (count - shift) % count;
    if (begin == 0) continue;
    x = joined(context,
               {sliced(context, x, axis, begin, count - begin), sliced(context, x, axis, 0, begin)},
               axis);
  }
  return {x};
}

Values tile(const OperationCall& call) {
  ValueId x = call.only();
  const int rank = rank_of(call, x);
  Dims times = call.integers("repeats");
  while (static_cast<int>(times.size()) < rank) times.insert(times.begin(), 1);
  if (static_cast<int>(times.size()) != rank || times[0] != 1) {
    call.refuse("one number for each axis, 1 for the batch", call.option("repeats").to_json());
  }
  for (int axis = 1; axis < rank; ++axis) {
    const int64_t count = times[static_cast<size_t>(axis)];
    if (count < 1 || count > kMostElements) {
      call.refuse("1 time or more", std::to_string(count));
    }
    x = repeated(call.context(), x, axis, count, true);
  }
  return {x};
}

Values repeat(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only();
  const int64_t axis = call.axis(call.option("axis"), rank_of(call, x));
  const Dims times = call.integers("repeats");
  const int64_t count = extent(call, x, axis);
  for (int64_t one : times) {
    if (one < 0 || one > kMostElements) call.refuse("0 times or more", std::to_string(one));
  }
  if (times.size() == 1 && times[0] > 0) return {repeated(context, x, axis, times[0], false)};
  if (static_cast<int64_t>(times.size()) != count || count > kMostParts) {
    call.refuse(fmt::format("a number, or one for each of {} places", count),
                call.option("repeats").to_json().substr(0, 80));
  }
  Values parts;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t own = times[static_cast<size_t>(i)];
    if (own > 0)
      parts.push_back(repeated(context, sliced(context, x, axis, i, 1), axis, own, true));
  }
  if (parts.empty()) call.refuse("something that is left", "nothing");
  return {joined(context, parts, axis)};
}

// Takes so many places from one end of an axis, in the order in which a border shows them.
ValueId mirrored(const OperationCall& call, ValueId x, int64_t axis, int64_t count, bool front,
                 bool with_edge) {
  const int64_t all = extent(call, x, axis);
  const int64_t edge = with_edge ? 0 : 1;
  if (count > all - edge) {
    call.refuse(fmt::format("a border of at most {}", all - edge), std::to_string(count));
  }
  LayerContext& context = call.context();
  const int64_t begin = front ? edge : all - edge - count;
  return reversed(context, sliced(context, x, axis, begin, count), axis);
}

ValueId border(const OperationCall& call, ValueId x, int64_t axis, int64_t count, bool front,
               double number) {
  LayerContext& context = call.context();
  const Config& mode = call.option("mode");
  const std::string name = mode.is_string() ? mode.as_string() : "constant";
  if (name == "reflect" || name == "symmetric") {
    return mirrored(call, x, axis, count, front, name == "symmetric");
  }
  if (name != "constant") call.refuse("constant, reflect or symmetric as mode", name);
  Dims dims = dims_of(context, x);
  dims[static_cast<size_t>(axis - 1)] = count;
  product_of(context, dims);
  const ValueId one = sliced(context, x, axis, 0, 1);
  const ValueId all = repeated(context, filled_like(context, one, number), axis, count, true);
  return as_dtype(context, all, context.type(x).dtype);
}

Values pad(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId x = call.only();
  const int rank = rank_of(call, x);
  const Config& widths = call.option("pad_width");
  const Config& constant = call.argument(1, "constant_values");
  if (!constant.is_null() && !constant.is_number()) {
    call.refuse("a number as constant_values", constant.to_json().substr(0, 80));
  }
  if (!widths.is_array() || static_cast<int>(widths.as_array().size()) != rank) {
    call.refuse("a pair of widths for each axis, 0 and 0 for the batch", widths.to_json());
  }
  for (int axis = 0; axis < rank; ++axis) {
    const Config& pair = widths.as_array()[static_cast<size_t>(axis)];
    const bool two = pair.is_array() && pair.as_array().size() == 2 &&
                     pair.as_array()[0].is_int() && pair.as_array()[1].is_int();
    if (!two) call.refuse("a pair of widths", pair.to_json());
    const int64_t before = pair.as_array()[0].as_int();
    const int64_t after = pair.as_array()[1].as_int();
    const int64_t most = axis == 0 ? 0 : kMostElements;
    if (before < 0 || after < 0 || before > most || after > most) {
      call.refuse("widths of 0 or more, and 0 for the batch", pair.to_json());
    }
    if (before == 0 && after == 0) continue;
    const double number = constant.is_number() ? constant.as_double() : 0.0;
    Values parts = {x};
    if (before > 0) parts.insert(parts.begin(), border(call, x, axis, before, true, number));
    if (after > 0) parts.push_back(border(call, x, axis, after, false, number));
    x = joined(context, parts, axis);
  }
  return {x};
}

Values cut(const OperationCall& call, ValueId x, int64_t axis, std::span<const int64_t> ends) {
  const int64_t count = extent(call, x, axis);
  Values parts;
  int64_t begin = 0;
  for (size_t i = 0; i <= ends.size(); ++i) {
    int64_t end = i == ends.size() ? count : ends[i];
    if (end < 0) end += count;
    if (end <= begin || end > count) {
      call.refuse(fmt::format("places in order below {}, parts with elements", count),
                  call.option("indices_or_sections").to_json().substr(0, 80));
    }
    parts.push_back(sliced(call.context(), x, axis, begin, end - begin));
    begin = end;
  }
  return parts;
}

Values split(const OperationCall& call) {
  const ValueId x = call.only();
  const int rank = rank_of(call, x);
  int64_t axis = 0;
  if (call.operation() == "Hsplit") {
    axis = call.axis(int64_t{1}, rank);
  } else if (call.operation() == "Dsplit") {
    axis = call.axis(int64_t{2}, rank);
  } else {
    axis = call.axis(call.option("axis"), rank);
  }
  const int64_t count = extent(call, x, axis);
  const Config& given = call.option("indices_or_sections");
  if (given.is_array()) {
    const Dims ends = call.integers("indices_or_sections");
    if (static_cast<int64_t>(ends.size()) >= kMostParts) call.refuse("fewer parts", "too many");
    return cut(call, x, axis, ends);
  }
  const int64_t parts = call.integer("indices_or_sections", 1, std::min(count, kMostParts));
  const bool uneven = call.operation() == "ArraySplit";
  if (!uneven && count % parts != 0) {
    call.refuse(fmt::format("parts that divide {}", count), std::to_string(parts));
  }
  Dims ends;
  int64_t end = 0;
  for (int64_t i = 0; i + 1 < parts; ++i) {
    end += count / parts + (i < count % parts ? 1 : 0);
    ends.push_back(end);
  }
  return cut(call, x, axis, ends);
}

Values unstack(const OperationCall& call) {
  const ValueId x = call.only();
  const int64_t axis = call.axis(call.option("axis"), rank_of(call, x));
  const int64_t count = extent(call, x, axis);
  if (count > kMostParts) call.refuse(fmt::format("at most {} parts", kMostParts), "more");
  Dims dims = dims_of(call.context(), x);
  dims.erase(dims.begin() + (axis - 1));
  Values parts;
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(reshaped(call.context(), sliced(call.context(), x, axis, i, 1), dims));
  }
  return parts;
}

Values join_along(const OperationCall& call, Values parts, int64_t axis) {
  LayerContext& context = call.context();
  bool real = false;
  for (ValueId x : parts) real = real || is_floating(context.type(x).dtype);
  for (ValueId& x : parts) {
    if (real) x = as_real(context, x);
  }
  return {joined(context, parts, axis)};
}

Values stack_sides(const OperationCall& call) {
  LayerContext& context = call.context();
  Values parts = call.list();
  if (call.operation() == "Hstack") {
    return join_along(call, parts, call.axis(int64_t{1}, rank_of(call, parts[0])));
  }
  // Values of rank 2 get a third axis.
  for (ValueId& x : parts) {
    if (rank_of(call, x) != 2) continue;
    Dims dims = dims_of(context, x);
    dims.push_back(1);
    x = reshaped(context, x, dims);
  }
  return join_along(call, parts, call.axis(int64_t{2}, rank_of(call, parts[0])));
}

Values append(const OperationCall& call) {
  if (call.inputs().size() != 2) call.refuse("two values of the model", "another call");
  return join_along(call, {call.inputs()[0], call.inputs()[1]},
                    call.axis(call.option("axis"), rank_of(call, call.inputs()[0])));
}

Values squeeze(const OperationCall& call) {
  const ValueId x = call.only();
  const Dims dims = dims_of(call.context(), x);
  const int rank = rank_of(call, x);
  const bool all = call.option("axis").is_null();
  const Dims axes = all ? Dims() : call.axes(rank);
  Dims left;
  for (int64_t d = 1; d < rank; ++d) {
    const int64_t count = dims[static_cast<size_t>(d - 1)];
    const bool named = std::ranges::find(axes, d) != axes.end();
    if (named && count != 1) call.refuse("axes of one element", std::to_string(count));
    if (!(named || (all && count == 1))) left.push_back(count);
  }
  return {reshaped(call.context(), x, left)};
}

Values expand_dims(const OperationCall& call) {
  const ValueId x = call.only();
  Dims dims = dims_of(call.context(), x);
  const Dims given = call.integers("axis");
  const int rank = rank_of(call, x) + static_cast<int>(given.size());
  for (int64_t axis : call.axes(rank)) dims.insert(dims.begin() + (axis - 1), 1);
  return {reshaped(call.context(), x, dims)};
}

Values rotate(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId x = call.only();
  const int rank = rank_of(call, x);
  const Dims axes = call.integers("axes");
  if (axes.size() != 2) call.refuse("two axes", call.option("axes").to_json());
  const int64_t first = call.axis(axes[0], rank);
  const int64_t second = call.axis(axes[1], rank);
  if (first == second) call.refuse("two axes", call.option("axes").to_json());
  const int64_t turns = (call.integer("k", -kMostElements, kMostElements, 1) % 4 + 4) % 4;
  std::vector<int64_t> order(static_cast<size_t>(rank - 1));
  std::iota(order.begin(), order.end(), 1);
  std::swap(order[static_cast<size_t>(first - 1)], order[static_cast<size_t>(second - 1)]);
  if (turns == 1) return {permuted(context, reversed(context, x, second), order)};
  if (turns == 3) return {reversed(context, permuted(context, x, order), second)};
  if (turns == 2 && extent(call, x, first) != extent(call, x, second)) {
    call.refuse("a plane as wide as high for half a turn", to_string(context.type(x).shape),
                "Keras on TensorFlow computes no turn of others: flip both axes.");
  }
  if (turns == 2) return {reversed(context, reversed(context, x, first), second)};
  return {x};
}

Values difference(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId x = call.only_real();
  const int64_t axis = call.axis(call.option("axis"), rank_of(call, x));
  const int64_t count = extent(call, x, axis);
  const int64_t times = call.integer("n", 0, std::min<int64_t>(count - 1, 64), 1);
  for (int64_t i = 0; i < times; ++i) {
    const int64_t left = count - 1 - i;
    x = context.emit("subtract",
                     {sliced(context, x, axis, 1, left), sliced(context, x, axis, 0, left)});
  }
  return {x};
}

// Moves the axes axis1 and axis2 after the others.
ValueId with_plane_last(const OperationCall& call, ValueId x) {
  const int rank = rank_of(call, x);
  const int64_t first = call.axis(call.option("axis1"), rank);
  const int64_t second = call.axis(call.option("axis2"), rank);
  if (first == second) call.refuse("two axes", call.option("axis2").to_json());
  std::vector<int64_t> order;
  for (int64_t d = 1; d < rank; ++d) {
    if (d != first && d != second) order.push_back(d);
  }
  order.push_back(first);
  order.push_back(second);
  return permuted(call.context(), x, order);
}

// The diagonal begins at (0, offset) or (−offset, 0). After its first row each further element is
// a row and a column away: the rows as one line, cut into pieces of a row and one.
ValueId diagonal_of(const OperationCall& call, ValueId x) {
  LayerContext& context = call.context();
  x = with_plane_last(call, x);
  Dims dims = dims_of(context, x);
  const int64_t columns = dims.back();
  const int64_t rows = dims[dims.size() - 2];
  const int64_t offset = call.integer("offset", -rows + 1, columns - 1, 0);
  const int64_t begin = offset < 0 ? -offset * columns : offset;
  const int64_t count =
      offset < 0 ? std::min(rows + offset, columns) : std::min(rows, columns - offset);
  dims.pop_back();
  dims.back() = rows * columns;
  const auto axis = static_cast<int64_t>(dims.size());
  x = reshaped(context, x, dims);
  const int64_t wanted = count * (columns + 1);
  const int64_t have = std::min(wanted, rows * columns - begin);
  x = sliced(context, x, axis, begin, have);
  if (have < wanted) {
    x = context.emit("pad_axis", {x},
                     {{"axis", axis}, {"before", int64_t{0}}, {"after", wanted - have}});
  }
  dims.back() = count;
  dims.push_back(columns + 1);
  x = sliced(context, reshaped(context, x, dims), axis + 1, 0, 1);
  dims.pop_back();
  return reshaped(context, x, dims);
}

Values diagonal(const OperationCall& call) { return {diagonal_of(call, call.only())}; }

Values trace(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = diagonal_of(call, call.only_real());
  Dims dims = dims_of(context, x);
  dims.back() = 1;
  const ValueId y = context.emit("sum_to", {x}, {{"shape", dims}, {"batched", true}});
  dims.pop_back();
  return {reshaped(context, y, dims)};
}

Values triangle(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  const int rank = rank_of(call, x);
  if (rank < 3) call.refuse("a matrix for each sample", "rank " + std::to_string(rank));
  const auto k = static_cast<double>(call.integer("k", -kMostElements, kMostElements, 0));
  const ValueId right = context.emit(
      "subtract", {positions_along(context, x, rank - 1), positions_along(context, x, rank - 2)});
  const bool lower = call.operation() == "Tril";
  const ValueId inside = compared(context, right, lower ? "less_equal" : "greater_equal", k);
  return {context.emit("apply_mask", {x, inside})};
}

// Sums half of what neighbouring places have together, times the distance between them.
Values trapezoid(const OperationCall& call) {
  LayerContext& context = call.context();
  ValueId y = call.only_real();
  if (!call.option("x").is_null()) call.refuse("even distances, dx", "places, x");
  const int64_t axis = call.axis(call.option("axis"), rank_of(call, y));
  const int64_t count = extent(call, y, axis);
  if (count < 2) call.refuse("two places or more", std::to_string(count));
  y = context.emit(
      "add", {sliced(context, y, axis, 1, count - 1), sliced(context, y, axis, 0, count - 1)});
  Dims dims = dims_of(context, y);
  dims[static_cast<size_t>(axis - 1)] = 1;
  y = context.emit("sum_to", {y}, {{"shape", dims}, {"batched", true}});
  dims.erase(dims.begin() + (axis - 1));
  return {scaled(context, reshaped(context, y, dims), call.number("dx", 1) / 2)};
}

// Moves blocks of places into channels, or back.
Values depth_and_space(const OperationCall& call) {
  LayerContext& context = call.context();
  const Config& format = call.option("data_format");
  const bool first = format.is_string() && format.as_string() == "channels_first";
  ValueId x = call.only();
  if (rank_of(call, x) != 4) call.refuse("images", to_string(context.type(x).shape));
  if (first) x = permuted(context, x, {2, 3, 1});
  const Dims dims = dims_of(context, x);
  const int64_t block = call.integer("block_size", 1, 65536);
  const bool to_depth = call.operation() == "SpaceToDepth";
  const bool fits =
      to_depth ? dims[0] % block == 0 && dims[1] % block == 0 : dims[2] % (block * block) == 0;
  if (!fits) {
    call.refuse(fmt::format("extents that {} divides", block), to_string(context.type(x).shape));
  }
  if (to_depth) {
    x = reshaped(context, x, {dims[0] / block, block, dims[1] / block, block, dims[2]});
    x = permuted(context, x, {1, 3, 2, 4, 5});
    x = reshaped(context, x, {dims[0] / block, dims[1] / block, block * block * dims[2]});
  } else {
    const int64_t channels = dims[2] / (block * block);
    x = reshaped(context, x, {dims[0], dims[1], block, block, channels});
    x = permuted(context, x, {1, 3, 2, 4, 5});
    x = reshaped(context, x, {dims[0] * block, dims[1] * block, channels});
  }
  return {first ? permuted(context, x, {3, 1, 2}) : x};
}

// Reads nested lists of integers, and the extents of the lists.
void flatten(const OperationCall& call, const Config& value, size_t depth, Dims& shape,
             Dims& numbers) {
  if (value.is_int()) {
    numbers.push_back(value.as_int());
    return;
  }
  if (!value.is_array() || value.as_array().empty() || depth > 6) {
    call.refuse("integers to take by", value.to_json().substr(0, 80));
  }
  const auto count = static_cast<int64_t>(value.as_array().size());
  if (depth == shape.size()) shape.push_back(count);
  if (shape[depth] != count) call.refuse("lists of one length", std::to_string(count));
  for (const Config& one : value.as_array()) flatten(call, one, depth + 1, shape, numbers);
}

// Takes rows of a constant table by the values' numbers; negative ones count from its end.
ValueId looked_up(const OperationCall& call) {
  LayerContext& context = call.context();
  const Operand table = call.operand(call.argument(0, "x"));
  if (table.number) call.refuse("a table", "a number");
  const ValueId numbers = call.only();
  const std::vector<int64_t> dims = context.type(table.value).shape.at(1);
  const Config& axis = call.option("axis");
  if (dims.size() > 1 ? !(axis.is_int() && axis.as_int() == 0) : false) {
    call.refuse("axis 0 of a table", axis.to_json());
  }
  const int64_t columns = product_of(context, std::span(dims).subspan(1));
  const ValueId rows = context.emit("reshape", {table.value}, {{"shape", Dims{dims[0], columns}}});
  const ValueId real = as_dtype(context, numbers, DType::kFloat32);
  const ValueId from_end = scaled(context, real, 1, static_cast<double>(dims[0]));
  const ValueId places = as_dtype(
      context, chosen(context, compared(context, real, "less", 0), from_end, real), DType::kInt32);
  const ValueId y = context.emit("embedding", {places, rows});
  Dims shape = dims_of(context, numbers);
  shape.insert(shape.end(), dims.begin() + 1, dims.end());
  return reshaped(context, y, shape);
}

// Integers of an array, or of nested lists, that the file holds.
Dims numbers_of(const OperationCall& call, const Config& given, Dims& shape) {
  const Config* inner = given.is_object() ? given.find("config") : nullptr;
  const Config* list = inner != nullptr ? inner->find("value") : &given;
  Dims numbers;
  flatten(call, list == nullptr ? given : *list, 0, shape, numbers);
  return numbers;
}

Values take(const OperationCall& call) {
  LayerContext& context = call.context();
  if (call.inputs().size() != 1) {
    call.refuse("numbers, or a table, that the file holds", "two values of the model",
                "Use take_along_axis.");
  }
  if (tensor_index(call.argument(0, "x")) < 0) return {looked_up(call)};
  const ValueId x = call.only();
  const int64_t axis = call.axis(call.option("axis"), rank_of(call, x));
  const int64_t count = extent(call, x, axis);
  Dims shape;
  Dims numbers = numbers_of(call, call.argument(1, "indices"), shape);
  for (int64_t& number : numbers) {
    if (number < 0) number += count;
    if (number < 0 || number >= count) {
      call.refuse(fmt::format("numbers below {}", count), std::to_string(number));
    }
  }
  const Dims dims = dims_of(context, x);
  Dims result(dims.begin(), dims.begin() + (axis - 1));
  result.insert(result.end(), shape.begin(), shape.end());
  result.insert(result.end(), dims.begin() + axis, dims.end());
  product_of(context, result);
  return {reshaped(context, taken(context, x, axis, numbers), result)};
}

// The first places of a part, 0 for the batch. `extents`: of the part; as TensorFlow has it
// (`moved`), a part that would reach beyond the end begins earlier.
Dims starts_of(const OperationCall& call, ValueId x, const Dims& extents, bool moved) {
  const Dims dims = dims_of(call.context(), x);
  const Config& given = call.argument(1, "start_indices");
  Dims shape;
  Dims starts = numbers_of(call, given, shape);
  if (shape.size() != 1 || starts.size() != dims.size() + 1 || starts[0] != 0) {
    call.refuse("a number for each axis, 0 for the batch", given.to_json().substr(0, 80),
                kNotMixed);
  }
  starts.erase(starts.begin());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (moved) starts[d] = std::clamp<int64_t>(starts[d], 0, dims[d] - extents[d]);
    if (starts[d] < 0 || starts[d] > dims[d] - extents[d]) {
      call.refuse(fmt::format("a part within {}", dims[d]), std::to_string(starts[d]));
    }
  }
  return starts;
}

Values slice(const OperationCall& call) {
  ValueId x = call.only();
  const Dims dims = dims_of(call.context(), x);
  Dims shape = call.integers("shape");
  if (shape.size() != dims.size() + 1 || shape[0] != -1) {
    call.refuse("an extent for each axis, -1 for the batch", call.option("shape").to_json(),
                kNotMixed);
  }
  shape.erase(shape.begin());
  Dims least = shape;  // -1 goes on to the end, and has one element or more
  for (int64_t& one : least) one = std::max<int64_t>(one, 1);
  const Dims starts = starts_of(call, x, least, false);
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t count = shape[d] == -1 ? dims[d] - starts[d] : shape[d];
    if (count < 1) call.refuse("a part with elements", call.option("shape").to_json());
    x = sliced(call.context(), x, static_cast<int64_t>(d) + 1, starts[d], count);
  }
  return {x};
}

// x with a part replaced along `axis` and the axes after it: what lies around the part stays.
ValueId with_part(LayerContext& context, ValueId x, ValueId part, const Dims& starts,
                  int64_t axis) {
  const Dims dims = dims_of(context, x);
  if (axis > static_cast<int64_t>(dims.size())) return part;
  const auto at = static_cast<size_t>(axis - 1);
  const int64_t count = dims_of(context, part)[at];
  const int64_t end = starts[at] + count;
  Values parts;
  if (starts[at] > 0) parts.push_back(sliced(context, x, axis, 0, starts[at]));
  const ValueId inner = sliced(context, x, axis, starts[at], count);
  parts.push_back(with_part(context, inner, part, starts, axis + 1));
  if (end < dims[at]) parts.push_back(sliced(context, x, axis, end, dims[at] - end));
  return joined(context, parts, axis);
}

Values update_slice(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.operand(call.argument(0, "inputs")).value;
  const ValueId part = call.operand(call.argument(2, "updates")).value;
  for (ValueId one : {x, part}) {
    if (!one.valid() || !context.type(one).shape.has_batch()) {
      call.refuse("two values of the model", "a constant", "Its first axis would be the batch's.");
    }
  }
  const Dims dims = dims_of(context, x);
  const Dims extents = dims_of(context, part);
  bool fits = dims.size() == extents.size();
  for (size_t d = 0; fits && d < dims.size(); ++d) fits = extents[d] <= dims[d];
  if (!fits || context.type(x).dtype != context.type(part).dtype) {
    call.refuse(fmt::format("a part of {}", to_string(context.type(x).shape)),
                to_string(context.type(part).shape));
  }
  return {with_part(context, x, part, starts_of(call, x, extents, true), 1)};
}

constexpr OperationRow kRows[] = {
    {"Append", append},
    {"ArraySplit", split},
    {"DepthToSpace", depth_and_space},
    {"Diagonal", diagonal},
    {"Diff", difference},
    {"Dsplit", split},
    {"Dstack", stack_sides},
    {"ExpandDims", expand_dims},
    {"Flip", flip},
    {"Fliplr", flip},
    {"Hsplit", split},
    {"Hstack", stack_sides},
    {"Moveaxis", move_axes},
    {"Pad", pad},
    {"Repeat", repeat},
    {"Roll", roll},
    {"Rot90", rotate},
    {"Slice", slice},
    {"SliceUpdate", update_slice},
    {"SpaceToDepth", depth_and_space},
    {"Split", split},
    {"Squeeze", squeeze},
    {"Swapaxes", swap_axes},
    {"Take", take},
    {"Tile", tile},
    {"Trace", trace},
    {"Trapezoid", trapezoid},
    {"Tril", triangle},
    {"Triu", triangle},
    {"Unstack", unstack},
};

}  // namespace

std::span<const OperationRow> move_operations() { return kRows; }

}  // namespace plimsoll::layers
