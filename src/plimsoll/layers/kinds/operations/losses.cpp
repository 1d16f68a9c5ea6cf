// Losses of keras.ops.nn between layers, a number for each row, and whether classes are among the
// most likely. Where a value is sigmoid or softmax of logits, they are computed from those, as
// Keras does (whichever of the two it is).

#include <limits>

#include "base/format.h"
#include "layers/kinds/operation_call.h"
#include "layers/kinds/operation_reduce.h"
#include "layers/kinds/softmax.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;
using Dims = std::vector<int64_t>;

constexpr double kEpsilon = 1e-7;  // keras.config.epsilon

// A target and what was predicted for it; of logits where those are known or given.
struct Pair {
  ValueId target;
  ValueId output;
  bool logits = false;
};

ValueId value_of(const OperationCall& call, size_t position, std::string_view name) {
  const Operand one = call.operand(call.argument(position, name), DType::kInt32);
  if (one.number) call.refuse(fmt::format("{} as a value of the model", name), "a number");
  return one.value;
}

Pair pair_of(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId output = value_of(call, 1, "output");
  if (!context.type(output).shape.has_batch()) {
    call.refuse("an output of the model", "a constant", "Name the target first.");
  }
  const ValueId logits = context.logits_of(output);
  const bool known = logits.valid();
  return {value_of(call, 0, "target"), as_real(context, known ? logits : output),
          known || call.flag("from_logits")};
}

ValueId clipped(LayerContext& context, ValueId p) {
  return clamped(context, p, kEpsilon, 1 - kEpsilon);
}

void expect_alike(const OperationCall& call, const Pair& pair) {
  const Shape target = call.context().type(pair.target).shape;
  const Shape output = call.context().type(pair.output).shape;
  if (target == output) return;
  call.refuse(fmt::format("a target of the output's shape {}", to_string(output)),
              to_string(target), "Reshape it before.");
}

// The logits x give (1 − t) x + softplus(−x) where x ≥ 0 and −t x + softplus(x) elsewhere, which
// are equal, but neither cancels. The probabilities p give −t log p − (1 − t) log(1 − p).
Values binary(const OperationCall& call) {
  LayerContext& context = call.context();
  Pair pair = pair_of(call);
  pair.target = as_real(context, pair.target);
  expect_alike(call, pair);
  const auto times = [&](ValueId a, ValueId b) { return context.emit("multiply", {a, b}); };
  if (pair.logits) {
    const ValueId x = pair.output;
    const auto side = [&](ValueId factor, double sign) {
      const ValueId rest =
          context.emit("activation", {scaled(context, x, sign)}, {{"kind", "softplus"}});
      return context.emit("add", {times(factor, x), rest});
    };
    return {chosen(context, compared(context, x, "greater_equal", 0),
                   side(scaled(context, pair.target, -1, 1), -1),
                   side(scaled(context, pair.target, -1), 1))};
  }
  const ValueId p = clipped(context, pair.output);
  const ValueId yes = times(pair.target, function_of(context, "log", p));
  const ValueId no = times(scaled(context, pair.target, -1, 1),
                           function_of(context, "log", scaled(context, p, -1, 1)));
  return {scaled(context, context.emit("add", {yes, no}), -1)};
}

// Logarithms of what each class is given along an axis.
ValueId log_classes(const OperationCall& call, const Pair& pair, int64_t axis) {
  LayerContext& context = call.context();
  const Dims folded = {axis};
  if (pair.logits) return softmax_along(context, pair.output, folded, "log_softmax");
  const ValueId sum = reduce_axes(context, pair.output, folded, true, "sum");
  return function_of(context, "log",
                     clipped(context, combined(context, "divide", pair.output, sum)));
}

// TensorFlow's gradient of the logits x is softmax(x) − t, whatever the targets t of a row add up
// to. This is 0, and its gradient is (1 − Σ t) softmax(x). `sums`: the logarithm of Σ exp(x).
ValueId no_more_than_once(LayerContext& context, ValueId targets, ValueId sums) {
  const auto kept = [&](ValueId x) { return context.emit("stop_gradient", {x}); };
  const ValueId zero = context.emit("subtract", {sums, kept(sums)});
  return context.emit("multiply", {kept(scaled(context, targets, -1, 1)), zero});
}

Values categorical(const OperationCall& call) {
  LayerContext& context = call.context();
  Pair pair = pair_of(call);
  pair.target = as_real(context, pair.target);
  expect_alike(call, pair);
  const int64_t axis = call.axis(call.option("axis").is_null() ? Config(-1) : call.option("axis"),
                                 context.type(pair.output).shape.rank());
  const ValueId logs = log_classes(call, pair, axis);
  const Dims folded = {axis};
  const auto along = [&](ValueId x, std::string_view kind) {
    return reduce_axes(context, x, folded, false, kind);
  };
  const ValueId loss =
      scaled(context, along(context.emit("multiply", {pair.target, logs}), "sum"), -1);
  if (!pair.logits) return {loss};
  const ValueId sums = along(context.emit("subtract", {pair.output, logs}), "mean");
  const ValueId zero = no_more_than_once(context, along(pair.target, "sum"), sums);
  return {context.emit("add", {loss, zero})};
}

// Extents of a sample's rows, the classes left out.
Dims rows_of(const Shape& shape) { return ops::sample_dims(ops::without_last(shape)); }

// Class numbers without a last dimension of 1.
ValueId class_numbers(const OperationCall& call, ValueId numbers, const Shape& output) {
  LayerContext& context = call.context();
  Dims dims = dims_of(context, numbers);
  Dims rows = rows_of(output);
  if (dims.size() == rows.size() + 1 && dims.back() == 1) dims.pop_back();
  if (!context.type(numbers).shape.has_batch() || dims != rows) {
    call.refuse(fmt::format("a class number for each row of {}", to_string(output)),
                to_string(context.type(numbers).shape), "Reshape them before.");
  }
  return reshaped(context, numbers, dims);
}

// What each row has at the place of its class, on a last axis of extent 1.
ValueId at_class(LayerContext& context, ValueId x, ValueId marks) {
  const Dims folded = {context.type(x).shape.rank() - 1};
  return reduce_axes(context, context.emit("apply_mask", {x, marks}), folded, true, "sum");
}

// Keras takes the logarithms of probabilities for logits. A number that is no class gives NaN,
// where TensorFlow refuses it, or gives NaN.
Values sparse(const OperationCall& call) {
  LayerContext& context = call.context();
  Pair pair = pair_of(call);
  const Shape shape = context.type(pair.output).shape;
  const int64_t axis = call.integer("axis", -1, shape.rank() - 1, -1);
  if (axis != -1 && axis != shape.rank() - 1) {
    call.refuse("-1 as axis", std::to_string(axis), "Put the classes last.");
  }
  const ValueId numbers = class_numbers(call, pair.target, shape);
  if (!pair.logits) pair.output = function_of(context, "log", clipped(context, pair.output));
  const Dims folded = {shape.rank() - 1};
  const ValueId logs = softmax_along(context, pair.output, folded, "log_softmax");
  const ValueId marks = marked_classes(context, numbers, shape[shape.rank() - 1].count);
  const ValueId found = at_class(context, logs, marks);
  const ValueId own = chosen(context, reduce_axes(context, marks, folded, true, "any"), found,
                             filled_like(context, found, std::numeric_limits<double>::quiet_NaN()));
  return {scaled(context, reshaped(context, own, rows_of(shape)), -1)};
}

// Whether fewer than k classes are more likely than a row's own; not where one is no finite number.
Values in_top(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = as_real(context, value_of(call, 1, "predictions"));
  const Shape shape = context.type(x).shape;
  if (!shape.has_batch() || shape.rank() != 2) {
    call.refuse("scores of classes, (batch, classes)", to_string(shape), "Reshape them before.");
  }
  const ValueId numbers = class_numbers(call, value_of(call, 0, "targets"), shape);
  const Dims folded = {1};
  const ValueId marks = marked_classes(context, numbers, shape[1].count);
  // x − x is 0 of what is finite.
  const ValueId finite = compared(context, context.emit("subtract", {x, x}), "equal", 0);
  const ValueId own = at_class(context, context.emit("apply_mask", {x, finite}), marks);
  ValueId all = own;
  ValueId each = x;
  broadcast_together(context, each, all);
  const ValueId above = context.emit("compare", {each, all}, {{"kind", "greater"}});
  const ValueId count =
      reduce_axes(context, as_dtype(context, above, DType::kFloat32), folded, false, "sum");
  const auto k = static_cast<double>(call.integer("k", -kMostElements, kMostElements));
  const auto both = [&](ValueId a, ValueId b) {
    return context.emit("logical", {a, b}, {{"kind", "and"}});
  };
  const ValueId known = both(reduce_axes(context, marks, folded, false, "any"),
                             reduce_axes(context, finite, folded, false, "all"));
  return {both(compared(context, count, "less", k), known)};
}

Values ctc(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId output = as_real(context, value_of(call, 1, "output"));
  Values operands = {output, value_of(call, 0, "target"), value_of(call, 2, "target_length"),
                     value_of(call, 3, "output_length")};
  const Shape shape = context.type(output).shape;
  if (!shape.has_batch() || shape.rank() != 3) {
    call.refuse("logits (batch, steps, classes)", to_string(shape), "Reshape them before.");
  }
  for (size_t i = 1; i < operands.size(); ++i) {
    const Shape given = context.type(operands[i]).shape;
    const int rank = i == 1 ? 2 : 1;
    if (!given.has_batch() || given.rank() < rank || dims_of(context, operands[i]).size() > 1) {
      call.refuse(i == 1 ? "a row of labels for each sample" : "a length for each sample",
                  to_string(given), "Reshape it before.");
    }
    if (i > 1) operands[i] = reshaped(context, operands[i], {});
    operands[i] = as_dtype(context, operands[i], DType::kInt32);
  }
  const int64_t classes = shape[2].count;
  const int64_t blank = call.integer("mask_index", -classes, classes - 1, 0);
  return {context.emit("ctc", operands, {{"blank", blank < 0 ? blank + classes : blank}})};
}

constexpr OperationRow kRows[] = {
    {"BinaryCrossentropy", binary},
    {"CTCLoss", ctc},
    {"CategoricalCrossentropy", categorical},
    {"InTopK", in_top},
    {"SparseCategoricalCrossentropy", sparse},
};

}  // namespace

std::span<const OperationRow> loss_operations() { return kRows; }

}  // namespace plimsoll::layers
