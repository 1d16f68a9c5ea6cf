// Loops of column_sums.cpp; see for_each_isa.h. T: float, or uint16_t for bfloat16.

#include "backend/cpu/simd/vector_walk_inl.h"

// The columns of kVectors whole vectors from `column` on, or of `part`, one that may be less.
template <int kVectors, typename T, typename Part>
inline void sum_columns(const T* values, int64_t rows, int64_t columns, int64_t column, Part part,
                        float* sums, bool add) {
  constexpr int64_t kGroup = 256;
  Floats total[kVectors] = {};
  for (int64_t group = 0; group < rows; group += kGroup) {
    const int64_t end = group + kGroup < rows ? group + kGroup : rows;
    Floats sum[kVectors] = {};
    for (int64_t row = group; row < end; ++row) {
      const T* from = values + row * columns + column;
      for (int v = 0; v < kVectors; ++v) sum[v] += part.get(from + v * kLanes);
    }
    for (int v = 0; v < kVectors; ++v) total[v] += sum[v];
  }
  for (int v = 0; v < kVectors; ++v) {
    float* to = sums + column + v * kLanes;
    part.put(to, add ? part.get(to) + total[v] : total[v]);
  }
}

template <typename T>
void column_sums(const T* values, int64_t rows, int64_t columns, int64_t begin, int64_t end,
                 float* sums, bool add) {
  constexpr int kMost = 64 / kLanes;
  constexpr int kFew = 16 / kLanes;
  int64_t column = begin;
  for (; column + 64 <= end; column += 64) {
    sum_columns<kMost>(values, rows, columns, column, WholeVector{0}, sums, add);
  }
  for (; column + 16 <= end; column += 16) {
    sum_columns<kFew>(values, rows, columns, column, WholeVector{0}, sums, add);
  }
  for (; column < end; column += kLanes) {
    const int64_t width = end - column < kLanes ? end - column : kLanes;
    sum_columns<1>(values, rows, columns, column, PartVector{0, width}, sums, add);
  }
}
