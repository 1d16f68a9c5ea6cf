// Loops of stretched.cpp; see for_each_isa.h. Sums are of float32 in groups of kGroup vectors a
// lane, groups of double, in order.

#include "backend/cpu/simd/vector_walk_inl.h"

constexpr int64_t kGroup = 64;

inline double lanes_total(Floats v) {
  float numbers[kLanes];
  store(numbers, v);
  double total = 0;
  for (float number : numbers) total += static_cast<double>(number);
  return total;
}

// Adds the sum of `count` numbers that lie side by side.
void add_run(const float* x, int64_t count, double* total) {
  constexpr int64_t kStep = 4 * kLanes;
  int64_t i = 0;
  const int64_t whole = count / kStep * kStep;
  while (i < whole) {
    const int64_t end = i + kGroup * kStep < whole ? i + kGroup * kStep : whole;
    Floats a = {}, b = {}, c = {}, d = {};
    for (; i < end; i += kStep) {
      a += load(x + i);
      b += load(x + i + kLanes);
      c += load(x + i + 2 * kLanes);
      d += load(x + i + 3 * kLanes);
    }
    *total += lanes_total((a + b) + (c + d));
  }
  if (i == count) return;
  Floats rest = {};
  for_each_vector(count - i, [&](auto lanes) { rest += lanes.get(x + i); });
  *total += lanes_total(rest);
}

// Adds rows of `width` columns, `stride` apart, to the columns' totals.
void add_run_rows(const float* x, int64_t rows, int64_t stride, int64_t width, double* totals) {
  for (int64_t first = 0; first < rows; first += kGroup) {
    const int64_t last = first + kGroup < rows ? first + kGroup : rows;
    const auto add = [&]<int kVectors>(int64_t column, auto part, int64_t count) {
      Floats sums[kVectors] = {};
      const float* from = x + first * stride + column;
      for (int64_t row = first; row < last; ++row, from += stride) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[v] += part.get(from + v * kLanes);
      }
      float numbers[kVectors * kLanes];
      for (int v = 0; v < kVectors; ++v) store(numbers + v * kLanes, sums[v]);
      for (int64_t i = 0; i < count; ++i) totals[column + i] += static_cast<double>(numbers[i]);
    };
    int64_t column = 0;
    for (; column + 4 * kLanes <= width; column += 4 * kLanes) {
      add.template operator()<4>(column, WholeVector{0}, 4 * kLanes);
    }
    for (; column < width; column += kLanes) {
      const int64_t count = width - column < kLanes ? width - column : kLanes;
      if (count == kLanes) {
        add.template operator()<1>(column, WholeVector{0}, count);
      } else {
        add.template operator()<1>(column, PartVector{0, count}, count);
      }
    }
  }
}
