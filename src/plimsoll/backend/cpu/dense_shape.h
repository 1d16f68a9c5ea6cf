#pragma once

// A call of dense, of a convolution of single points, or of one of their gradients as a matrix
// product.

#include <optional>
#include <span>

#include "backend/cpu/isa.h"
#include "backend/cpu/node_facts.h"

namespace plimsoll::backend::cpu {

enum class DenseKind { kForward, kGradInput, kGradKernel };

// Rows are all positions of all samples in the call.
struct DenseShape {
  DenseKind kind = DenseKind::kForward;
  int64_t rows = 1;
  int64_t inner = 1;      // width of x
  int64_t units = 1;      // width of y in this call
  int64_t all_units = 1;  // and in the layer
  bool bias = false;
  bool relu = false;
  bool narrow = false;  // factors are bfloat16: so are y and dx, not dw
  bool cut() const { return units < all_units; }
};

// From one row of an operand to the next, in elements: all dimensions but the last are dense among
// themselves.
int64_t row_stride(std::span<const int64_t> dims, std::span<const int64_t> strides);

// nullopt: another operator, another type than float32 and bfloat16, or packed weights.
std::optional<DenseShape> read_dense_shape(const NodeFacts& facts);

// float32 conv2d with a kernel of one point, without strides, padding or groups, and its gradients:
// a dense layer over all positions. nullopt: anything else.
std::optional<DenseShape> read_point_convolution(const NodeFacts& facts);
// Of either, what packed_dense computes.
std::optional<DenseShape> read_packed_dense(const NodeFacts& facts, Isa isa);

}  // namespace plimsoll::backend::cpu
