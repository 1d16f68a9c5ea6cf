#pragma once

// One call of an operator of keras.ops between layers, and the operators by family.
//
// An operator reads what it needs from its call and adds nodes. It mixes no samples: the batch
// stays in front of every value. Whatever a file may say is checked here: counts, axes, extents.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/kinds/operation.h"
#include "layers/model/layer.h"

namespace plimsoll::layers {

class OperationCall {
 public:
  // `arguments`: the positional ones, then the others in order (named: `names`, empty for
  // positional ones).
  OperationCall(LayerContext& context, std::string_view operation, std::span<const ValueId> inputs,
                std::span<const Config> arguments, std::span<const std::string> names,
                const Config& options)
      : context_(context),
        operation_(operation),
        inputs_(inputs),
        arguments_(arguments),
        names_(names),
        options_(options) {}

  LayerContext& context() const { return context_; }
  std::string_view operation() const { return operation_; }
  std::span<const ValueId> inputs() const { return inputs_; }

  // Null where there is none.
  const Config& option(std::string_view key) const;
  bool flag(std::string_view key) const;
  // An option that is an integer in [least, most].
  int64_t integer(std::string_view key, int64_t least, int64_t most) const;
  int64_t integer(std::string_view key, int64_t least, int64_t most, int64_t fallback) const;
  double number(std::string_view key, double fallback) const;
  // One integer or a list of them; empty where the option is null.
  std::vector<int64_t> integers(std::string_view key) const;

  size_t argument_count() const { return arguments_.size(); }
  // By position, or by name; null where it was not given.
  const Config& argument(size_t position, std::string_view name = "") const;

  // The only input of the call.
  ValueId only() const;
  // The same, of floating point.
  ValueId only_real() const;
  // An argument that is a value or a constant.
  Operand operand(const Config& argument, DType dtype = DType::kFloat32) const;
  // The same as a value of floating point.
  ValueId real(const Config& argument) const;
  // The only argument is a list of values.
  std::vector<ValueId> list() const;

  // An axis of a value of that rank, counted from the front; the batch is refused.
  int64_t axis(const Config& given, int rank) const;
  int64_t axis(int64_t given, int rank) const;
  // Axes of the option "axis" (or another), sorted, each once; none given is refused: it would fold
  // the batch.
  std::vector<int64_t> axes(int rank, std::string_view key = "axis") const;

  [[noreturn]] void refuse(const std::string& expected, const std::string& received,
                           std::string_view next_step = "") const {
    context_.refuse(expected, received, next_step);
  }

 private:
  LayerContext& context_;
  std::string_view operation_;
  std::span<const ValueId> inputs_;
  std::span<const Config> arguments_;
  std::span<const std::string> names_;
  const Config& options_;
};

using MakeOperation = std::vector<ValueId> (*)(const OperationCall& call);
struct OperationRow {
  std::string_view operation;
  MakeOperation make;
};

// Indices; losses; elementwise functions; of integers; axes moved, cut and joined; axes folded; the
// order of elements; products; the matrices of samples; what keras.ops.nn has for networks;
// transforms to frequencies; windows that slide.
std::span<const OperationRow> item_operations();
std::span<const OperationRow> loss_operations();
std::span<const OperationRow> map_operations();
std::span<const OperationRow> integer_operations();
std::span<const OperationRow> move_operations();
std::span<const OperationRow> fold_operations();
std::span<const OperationRow> order_operations();
std::span<const OperationRow> product_operations();
std::span<const OperationRow> matrix_operations();
std::span<const OperationRow> network_operations();
std::span<const OperationRow> spectrum_operations();
std::span<const OperationRow> window_operations();

// Elements of a sample that an operator may make; more is refused as a size that nobody means.
inline constexpr int64_t kMostElements = int64_t{1} << 40;

// Extents of a sample, after the batch.
std::vector<int64_t> dims_of(const LayerContext& context, ValueId x);
// Throws kModel where they are more than kMostElements.
int64_t product_of(const LayerContext& context, std::span<const int64_t> dims);
ValueId as_real(LayerContext& context, ValueId x);
ValueId as_dtype(LayerContext& context, ValueId x, DType dtype);
ValueId reshaped(LayerContext& context, ValueId x, std::vector<int64_t> dims);
// `order`: axes from 1; nothing is done where they are in order.
ValueId permuted(LayerContext& context, ValueId x, const std::vector<int64_t>& order);
// Axis `from` in place `to`, both from 1.
ValueId axis_moved(LayerContext& context, ValueId x, int64_t from, int64_t to);
ValueId sliced(LayerContext& context, ValueId x, int64_t axis, int64_t begin, int64_t count);
// Zeros before an axis and after it.
ValueId padded(LayerContext& context, ValueId x, int64_t axis, int64_t before, int64_t after);
// These places of an axis, in that order.
ValueId taken(LayerContext& context, ValueId x, int64_t axis, std::span<const int64_t> places);
ValueId scaled(LayerContext& context, ValueId x, double scale, double offset = 0);
ValueId function_of(LayerContext& context, std::string_view kind, ValueId x);
// Both repeated into each other and combined.
ValueId combined(LayerContext& context, std::string_view op, ValueId a, ValueId b);
// At least and at most these numbers.
ValueId clamped(LayerContext& context, ValueId x, double least, double most);
ValueId compared(LayerContext& context, ValueId x, std::string_view kind, double number);
// a where the condition holds, b elsewhere.
ValueId chosen(LayerContext& context, ValueId condition, ValueId a, ValueId b);
// That number everywhere, of x's shape, in float32.
ValueId filled_like(LayerContext& context, ValueId x, double number);
// Each element's position along an axis, of x's shape, in float32.
ValueId positions_along(LayerContext& context, ValueId x, int64_t axis);
ValueId is_nan(LayerContext& context, ValueId x);
// How many of the numbers, sorted, lie at or below each element (below: `or_at` is false).
ValueId counted_below(LayerContext& context, ValueId x, std::span<const double> numbers,
                      bool or_at);
// Numbers 0 … classes − 1 as rows of 0 and 1 on a new last axis, of bool.
ValueId marked_classes(LayerContext& context, ValueId numbers, int64_t classes);
// x · x^T and the like by Einstein's notation; operands may be weights. Throws kModel where samples
// would be mixed.
ValueId einsum(LayerContext& context, std::string_view subscripts,
               std::span<const ValueId> operands);

}  // namespace plimsoll::layers
