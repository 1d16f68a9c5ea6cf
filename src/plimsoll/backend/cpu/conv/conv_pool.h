#pragma once

// Gradients of a convolution straight from the pooled gradient and the winners after it, and the
// pooling of a convolution's rows (ops/image/conv2d_pool.cpp says what winners are).
//
// Only windows whose winner lets the gradient through are touched: one position in four for 2 × 2
// windows, and about half of those after ReLU. For one filter the patch of x (or of the kernel)
// that such a position meets lies in a few vectors, kept in registers over a list of positions:
//
//   dkernel[·][f] += d · x[patch at position]        over the positions where filter f has d ≠ 0
//   dx[patch at position] += d · kernel[·][f]        over the filters whose winner that position is
//
// A patch is one run of kernel width × channels numbers for each row of the kernel, rounded up to
// whole vectors ("columns"); the kernel is kept filter by filter in that form. Dilation is 1.

#include <cstdint>

#include "backend/cpu/simd/isa.h"
#include "ops/image/conv2d_pool.h"

namespace plimsoll::backend::cpu {

// Sizes that the loops work with, in elements.
struct PatchShape {
  int64_t kernel_rows = 1;
  int64_t run = 1;   // numbers of one row of a patch
  int64_t row = 16;  // the same, rounded up to whole vectors
  int64_t filters = 1;
  int64_t pool_rows = 1;
  int64_t pool_columns = 1;
  int64_t taps = 1;
  int64_t stride_rows = 1;
  int64_t stride_columns = 1;
  int64_t channels = 1;
  int64_t list_windows = 16;  // of a list of the kernel gradient
  int64_t source_windows =
      1;  // whose lists the source gradient goes through a patch's columns with

  int64_t patch() const { return kernel_rows * row; }  // of one filter
  // Source rows under the windows of one pooled row, and under one position's patch.
  int64_t band_rows() const { return (pool_rows - 1) * stride_rows + kernel_rows; }
  int64_t step_rows() const { return pool_rows * stride_rows; }  // from pooled row to pooled row
};

// Vectors of every variant divide this.
inline constexpr int64_t kWidestVector = 16;
// Filters in a list, the most windows of a list.
inline constexpr int64_t kListFilters = 16;
inline constexpr int64_t kMostListWindows = 64;
inline constexpr int64_t kMostSourceWindows = 16;

// Room for the filters of a window by the position that wins, or by none, with a vector after each
// list.
inline int64_t window_lists(const PatchShape& s) {
  return (s.taps + 1) * (s.filters + kWidestVector);
}
inline int64_t source_list(const PatchShape& s) { return s.source_windows * window_lists(s); }

// Pools rows of a convolution's result, as long as that is in a cache.
class ConvPooling {
 public:
  ConvPooling(const ops::Conv2dPoolGeometry& geometry, Isa isa);
  // `rows` pooled rows; either output may be null. With ReLU, `result` has gone through it.
  void run(const float* result, int64_t rows, float* y, uint8_t* winners) const noexcept;

 private:
  using Loop = void (*)(const PatchShape&, bool relu, const float* x, int64_t x_row, int64_t rows,
                        int64_t columns, float* y, uint8_t* winners);
  PatchShape shape_;
  int64_t columns_;
  int64_t result_row_;
  bool relu_;
  Loop loop_;
};

}  // namespace plimsoll::backend::cpu
