#pragma once

// A call of dense, of a convolution of single points, or of one of their gradients as a matrix
// product.

#include <optional>
#include <span>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/node_facts.h"

namespace plimsoll::backend::cpu {

enum class DenseKind { kForward, kGradInput, kGradKernel };
// Which loops compute it: of packed panels, few_rows.h, small_gradient.h.
enum class DenseLoops { kPacked, kFewRows, kSmallGradient };

// Where the positions of a convolution with strides lie in its source.
struct SpreadPositions {
  int64_t rows = 0, columns = 0;  // of y
  int64_t row_stride = 1, column_stride = 1;
  int64_t source_rows = 0, source_columns = 0;
};

// Rows are all positions of all samples in the call.
struct DenseShape {
  DenseKind kind = DenseKind::kForward;
  int64_t rows = 1;
  int64_t inner = 1;      // width of x
  int64_t units = 1;      // width of y in this call
  int64_t all_units = 1;  // and in the layer
  bool bias = false;
  bool relu = false;
  bool bf16 = false;                           // factors are bfloat16: so are y and dx, not dw
  std::optional<SpreadPositions> spread = {};  // of dx; none: the positions of dy
  DenseLoops loops = DenseLoops::kPacked;
  bool cut() const { return units < all_units; }
};

// From one row of an operand to the next, in elements: all dimensions but the last are dense among
// themselves.
int64_t row_stride(std::span<const int64_t> dims, std::span<const int64_t> strides);

// nullopt: another operator, another type than float32 and bfloat16, or packed weights.
std::optional<DenseShape> read_dense_shape(const NodeFacts& facts);

// A convolution with a kernel of one point, without padding or groups, and its gradients: a dense
// layer over all positions; with strides the gradient to an image alone. nullopt: anything else,
// and packed weights.
std::optional<DenseShape> read_point_convolution(const NodeFacts& facts);
// The shape of either that packed_dense computes, and by which loops.
std::optional<DenseShape> read_packed_dense(const NodeFacts& facts, const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
