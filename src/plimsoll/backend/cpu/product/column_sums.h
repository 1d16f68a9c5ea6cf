#pragma once

// Sums of the columns of a dense (rows, columns) array: bias gradients.
//
// Rows are summed in order within groups of 256, groups in order: a sum of n terms has an error of
// about 256 + n / 256 roundings, and does not depend on who computes it, since threads share out
// columns and never rows.

#include <cstdint>

#include "backend/cpu/simd/isa.h"

namespace plimsoll::backend::cpu {

class ColumnSums {
 public:
  ColumnSums(int64_t rows, int64_t columns, Isa isa, int most_parts = 1);
  // Stores, or adds to what is there.
  void run(const float* values, float* sums, bool add) const noexcept;
  // The same for bfloat16, summed in float32.
  void run(const uint16_t* values, float* sums, bool add) const noexcept;

 private:
  template <typename T>
  using Loop = void (*)(const T* values, int64_t rows, int64_t columns, int64_t begin, int64_t end,
                        float* sums, bool add);
  template <typename T>
  void run_loop(Loop<T> loop, const T* values, float* sums, bool add) const noexcept;

  int64_t rows_;
  int64_t columns_;
  int parts_;
  Loop<float> loop_;
  Loop<uint16_t> bf16_loop_;
};

}  // namespace plimsoll::backend::cpu
