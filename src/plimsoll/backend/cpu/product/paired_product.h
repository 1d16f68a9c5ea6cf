#pragma once

// Products of matrices of bfloat16 numbers of any size, y (+)= x · w, two steps of the sum at a
// time, for processors that multiply bfloat16 numbers in pairs:
//
//   sum[lane] += x[2k] · w[2k][lane] + x[2k + 1] · w[2k + 1][lane]
//
// As in packed_product.h, w is copied to panels of two vectors' width, here pair by pair of steps,
// and so are the rows of a transposed x; odd last steps go with zeros. Sums are float32. An element
// is one chain of such steps in rising order, or, where y is float32 or there are more than 8192,
// the sum in order of pieces of 512 steps: its bits depend neither on the shares of threads nor on
// other rows and columns.

#include <cstdint>

#include "backend/cpu/cpu_kernels.h"

namespace plimsoll::backend::cpu {

inline constexpr int kPairedTileRows = 8;
inline constexpr int64_t kPairedColumns = 32;  // of a panel

// Row r, column c: Σ_k x[r · x_row + k · x_step] · w[k · w_row + c], or w[c · w_row + k] where
// `transposed`.
struct PairedProduct {
  int64_t rows = 0, inner = 0, columns = 0;
  const uint16_t* x = nullptr;
  int64_t x_row = 0, x_step = 1;  // x_step is 1 but where
  bool transposed_x = false;      // x_row is 1, and x_step a row of memory
  const uint16_t* w = nullptr;
  int64_t w_row = 0;
  bool transposed = false;
  // One of both; sums are rounded once, or where they are added to what was rounded before.
  float* y = nullptr;
  uint16_t* bf16_y = nullptr;
  int64_t y_row = 0;
  bool bf16 = false;            // it is bf16_y
  bool add = false;             // to what y holds
  const float* bias = nullptr;  // one a column, added last; nullptr: none
  bool relu = false;            // negative results are zero
};

// Where the processor has tiles, they hold the sums, 32 steps at a time (tiled_product.h).
struct PairedMultiply {
  // `scratch`: as many bytes as said of the same inner, transposed_x and bf16 and of as many rows
  // and columns or more; of one thread.
  void (*run)(const PairedProduct&, std::byte* scratch);
  int64_t (*bytes)(const PairedProduct&);
};
// Null: the processor has no such products, or the compiler does not know them.
const PairedMultiply* pick_paired_multiply(const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
