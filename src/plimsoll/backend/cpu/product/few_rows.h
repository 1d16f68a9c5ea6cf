#pragma once

// dense and the gradient of its source over few rows, with weights that come from memory: flattened
// images in front of layers of thousands of units, by small batches. The weights are read once,
// along their rows, and shared out among threads; nothing is packed.
//
// Forward, eight rows of the weights at a time meet all rows of y, as many columns of them as lie
// in or near the first cache: an element is the sum of its eights in order. In the gradient of the
// source an element is a sum of lanes, each one chain along a row of the weights, added by halves.

#include <cstdint>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/product/dense_shape.h"

namespace plimsoll::backend::cpu {

// Rows of y (+)= x · w for `columns` columns, or of dx (+)= dy · wᵀ for `inner` rows of w.
struct FewRows {
  int64_t rows = 0, inner = 0, columns = 0;
  const float* x = nullptr;  // x, or dy
  int64_t x_row = 0;
  const float* w = nullptr;
  int64_t w_row = 0;
  float* y = nullptr;  // y, or dx
  int64_t y_row = 0;
  const float* bias = nullptr;  // forward: added last; nullptr: none
  bool relu = false;            // forward: negative results are zero
  bool add = false;             // gradient: to what dx holds
};

// Whether it is the faster one.
bool is_few_rows(const DenseShape& shape);
// Operands may be cut along the units.
CpuKernel make_few_rows(const DenseShape& shape, const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
