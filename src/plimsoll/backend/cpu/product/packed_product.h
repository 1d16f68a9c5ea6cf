#pragma once

// Products of matrices of any size, y (+)= x · w, one factor packed a piece at a time.
//
// w is copied in pieces of 256 steps of the sum to panels of two vectors' width, which every row of
// x then meets in a cache; so is x, where its rows lie side by side and their steps far apart (Goto
// and van de Geijn, "Anatomy of high-performance matrix multiplication"). An element of y is the
// sum of its pieces in order, each one chain of multiply-adds in rising order, whatever the other
// rows and columns are: its bits depend neither on the shares of threads nor on how rows and
// columns are grouped.

#include <cstdint>

#include "backend/cpu/simd/isa.h"

namespace plimsoll::backend::cpu {

// Row r, column c: Σ_k x[r · x_row + k · x_step] · w[k · w_row + c], or w[c · w_row + k] where
// `transposed`.
struct PackedProduct {
  int64_t rows = 0, inner = 0, columns = 0;
  const float* x = nullptr;
  int64_t x_row = 0, x_step = 1;
  bool transposed_x = false;  // x_row is 1, and x_step a row of memory
  const float* w = nullptr;
  int64_t w_row = 0;
  bool transposed = false;
  float* y = nullptr;
  int64_t y_row = 0;
  bool add = false;             // to what y holds
  const float* bias = nullptr;  // one a column, added last; nullptr: none
  bool relu = false;            // negative results are zero
};

// `scratch`: as many floats as packed_floats says of the same inner and transposed_x and of as many
// columns or more; of one thread.
using PackedMultiplyFunction = void (*)(const PackedProduct&, float* scratch);
PackedMultiplyFunction pick_packed_multiply(Isa isa);
int64_t packed_floats(Isa isa, const PackedProduct& product);

}  // namespace plimsoll::backend::cpu
