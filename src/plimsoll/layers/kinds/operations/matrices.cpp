// What keras.ops.linalg asks of matrices, one for each sample.

#include <algorithm>
#include <limits>

#include "base/format.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

using Values = std::vector<ValueId>;
using Dims = std::vector<int64_t>;

constexpr std::string_view kOneEach = "Reshape the values to (batch, n, n).";

// A square matrix for each sample.
ValueId square(const OperationCall& call, ValueId x) {
  LayerContext& context = call.context();
  const Dims dims = dims_of(context, x);
  if (!context.type(x).shape.has_batch() || dims.size() != 2 || dims[0] != dims[1]) {
    call.refuse("a square matrix for each sample", to_string(context.type(x).shape), kOneEach);
  }
  return x;
}

ValueId transposed(LayerContext& context, ValueId x) { return permuted(context, x, {2, 1}); }

ValueId solved(LayerContext& context, ValueId a, ValueId b, std::string_view triangle,
               bool transposed) {
  return context.emit("solve", {a, b},
                      {{"triangle", std::string(triangle)}, {"transposed", transposed}});
}

Values cholesky(const OperationCall& call) {
  const ValueId lower = call.context().emit("cholesky", {square(call, call.only_real())});
  return {call.flag("upper") ? transposed(call.context(), lower) : lower};
}

// Ones on the diagonal, of a matrix's shape.
ValueId unit_like(LayerContext& context, ValueId matrix) {
  const Dims dims = dims_of(context, matrix);
  const auto extent = static_cast<size_t>(dims[0]);
  ConstantData unit{DType::kFloat32, dims, std::vector<double>(extent * extent)};
  for (size_t i = 0; i < extent; ++i) unit.values[i * (extent + 1)] = 1;
  return over_batch(context, context.constant(unit), context.type(matrix).shape);
}

// As TensorFlow has it, of positive definite matrices: 2 Σ log of the factor's diagonal.
Values log_of_definite(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId factor = context.emit("cholesky", {square(call, call.only_real())});
  const int64_t extent = dims_of(context, factor)[0];
  const ValueId alone = context.emit("multiply", {factor, unit_like(context, factor)});
  const ValueId diagonal =
      context.emit("sum_to", {alone}, {{"shape", Dims{extent, 1}}, {"batched", true}});
  const ValueId sum = context.emit("sum_to", {function_of(context, "log", diagonal)},
                                   {{"shape", Dims{1, 1}}, {"batched", true}});
  return {scaled(context, reshaped(context, sum, {}), 2)};
}

// A⁻¹ of A = L Lᵀ or Uᵀ U by the factor's own inverse, of which only the triangle is read.
Values cholesky_inverse(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId factor = square(call, call.only_real());
  const ValueId one = unit_like(context, factor);
  const bool upper = call.flag("upper");
  const ValueId inverse = solved(context, factor, one, upper ? "upper" : "lower", false);
  return {context.emit("batch_matmul", {inverse, inverse},
                       {{"transpose_left", !upper}, {"transpose_right", upper}})};
}

Values determinant(const OperationCall& call) {
  return {call.context().emit("determinant", {square(call, call.only_real())})};
}

Values log_determinant(const OperationCall& call) {
  return call.context().emit_all("log_determinant", {square(call, call.only_real())});
}

Values inverse(const OperationCall& call) {
  return {call.context().emit("inverse", {square(call, call.only_real())})};
}

// Q and R; of a matrix that is wider than high the first columns have them, and R goes on with Qᵀ
// times the others.
Values factors(const OperationCall& call) {
  LayerContext& context = call.context();
  const ValueId x = call.only_real();
  const Dims dims = dims_of(context, x);
  const Config& mode = call.option("mode");
  const bool complete = mode.is_string() && mode.as_string() == "complete";
  if (dims.size() != 2) {
    call.refuse("a matrix for each sample", to_string(context.type(x).shape),
                "Reshape the values to (batch, m, n).");
  }
  if (complete && dims[0] > dims[1]) {
    call.refuse("mode reduced of a matrix that is higher than wide", "complete",
                "Further columns of Q have no gradient.");
  }
  if (dims[0] >= dims[1]) return context.emit_all("qr", {x});
  const Values first = context.emit_all("qr", {sliced(context, x, 2, 0, dims[0])});
  const ValueId rest =
      context.emit("batch_matmul", {first[0], sliced(context, x, 2, dims[0], dims[1] - dims[0])},
                   {{"transpose_left", true}, {"transpose_right", false}});
  return {first[0], context.emit("concat", {first[1], rest}, {{"axis", 2}})};
}

Values solve(const OperationCall& call) {
  LayerContext& context = call.context();
  if (call.inputs().size() != 2) {
    call.refuse("two values of the model", "another call",
                "Keras takes the axis of samples of a constant for one of the matrix's.");
  }
  const ValueId a = square(call, as_real(context, call.inputs()[0]));
  ValueId b = as_real(context, call.inputs()[1]);
  const Dims dims = dims_of(context, b);
  const bool vector = dims.size() == 1;
  if (vector) b = reshaped(context, b, {dims[0], 1});
  if (dims_of(context, b).size() != 2) {
    call.refuse("a vector or a matrix for each sample", to_string(context.type(b).shape), kOneEach);
  }
  const bool whole = call.operation() == "Solve";
  const std::string_view triangle = whole ? "none" : call.flag("lower") ? "lower" : "upper";
  const ValueId x = solved(context, a, b, triangle, false);
  return {vector ? reshaped(context, x, dims) : x};
}

// A matrix for each sample, and the larger of its extents times float32's precision.
struct Rectangle {
  ValueId value;
  double precision = 0;
};

Rectangle rectangle(const OperationCall& call) {
  const ValueId x = call.only_real();
  const Dims dims = dims_of(call.context(), x);
  if (dims.size() != 2) {
    call.refuse("a matrix for each sample", to_string(call.context().type(x).shape),
                "Reshape the values to (batch, m, n).");
  }
  const auto extent = static_cast<double>(std::max(dims[0], dims[1]));
  return {x, extent * std::numeric_limits<float>::epsilon()};
}

Values pseudo_inverse(const OperationCall& call) {
  const Rectangle a = rectangle(call);
  const double rcond = call.number("rcond", 10 * a.precision);
  return {call.context().emit("pseudo_inverse", {a.value}, {{"rcond", rcond}})};
}

// Above that many columns TensorFlow divides the work, and signs come out by how it did.
constexpr int64_t kMostVectors = 15;

// Values alone, or U, values and Vᵀ.
Values singular_values(const OperationCall& call) {
  LayerContext& context = call.context();
  const Rectangle a = rectangle(call);
  const Config& vectors = call.option("compute_uv");
  if (vectors.is_bool() && !vectors.as_bool()) {
    return {context.emit("singular_values", {a.value})};
  }
  const Dims dims = dims_of(context, a.value);
  if (dims[1] > kMostVectors) {
    call.refuse(fmt::format("at most {} columns of a matrix with singular vectors", kMostVectors),
                std::to_string(dims[1]),
                "The signs of more are told by how another library divides the work. "
                "compute_uv=False asks for the values alone.");
  }
  const Config& full = call.option("full_matrices");
  if (dims[0] != dims[1] && !(full.is_bool() && !full.as_bool())) {
    call.refuse("full_matrices=False of a matrix that is not square",
                to_string(context.type(a.value).shape), "Further vectors are any that there are.");
  }
  Values found = context.emit_all("singular_vectors", {a.value});
  found[2] = transposed(context, found[2]);
  return found;
}

Values eigenvectors(const OperationCall& call) {
  return call.context().emit_all("eigenvectors", {square(call, call.only_real())});
}

// How many singular values are above a bound: Keras's, or as TensorFlow has it a part of the
// largest.
Values rank(const OperationCall& call) {
  LayerContext& context = call.context();
  const Rectangle a = rectangle(call);
  const ValueId values = context.emit("singular_values", {a.value});
  ValueId above;
  if (call.option("tol").is_null()) {
    const ValueId bound = scaled(context, sliced(context, values, 1, 0, 1), a.precision);
    above = compared(context, combined(context, "subtract", values, bound), "greater", 0);
  } else {
    above = compared(context, values, "greater", call.number("tol", 0));
  }
  const ValueId count = context.emit("sum_to", {as_dtype(context, above, DType::kFloat32)},
                                     {{"shape", Dims{1}}, {"batched", true}});
  return {as_dtype(context, reshaped(context, count, {}), DType::kInt32)};
}

constexpr OperationRow kRows[] = {
    {"Cholesky", cholesky},
    {"CholeskyInverse", cholesky_inverse},
    {"Det", determinant},
    {"Eigh", eigenvectors},
    {"Inv", inverse},
    {"Logdet", log_of_definite},
    {"MatrixRank", rank},
    {"Pinv", pseudo_inverse},
    {"Qr", factors},
    {"SVD", singular_values},
    {"Slogdet", log_determinant},
    {"Solve", solve},
    {"SolveTriangular", solve},
};

}  // namespace

std::span<const OperationRow> matrix_operations() { return kRows; }

}  // namespace plimsoll::layers
