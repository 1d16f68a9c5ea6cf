// Loops of product.cpp; see for_each_isa.h and product.h.

#include "backend/cpu/simd/functions_inl.h"

// Sums that stay in registers: rows × vectors.
constexpr int kMostRows = kLanes >= 8 ? 6 : 4;
constexpr int kMostVectors = kLanes == 16 ? 4 : 2;

template <int kRows, int kVectors>
void multiply_fixed(const Product& p, int64_t row, int64_t column) {
  Floats sums[kRows][kVectors];
  float* y = p.y + row * p.y_row + column;
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = p.add ? load(y + r * p.y_row + v * kLanes) : Floats{};
    }
  }
  const float* x = p.x + row * p.x_row;
  const float* w = p.w + column;
  for (int64_t k = 0; k < p.inner; ++k) {
    Floats factors[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) factors[v] = load(w + v * kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const Floats value = broadcast(x[r * p.x_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = multiply_add(value, factors[v], sums[r][v]);
    }
    x += p.x_step;
    w += p.w_row;
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(y + r * p.y_row + v * kLanes, sums[r][v]);
  }
}

// One row and fewer columns than a vector has lanes.
inline void multiply_part(const Product& p, int64_t row, int64_t column, int64_t count) {
  float* y = p.y + row * p.y_row + column;
  Floats sum = p.add ? load_part(y, count) : Floats{};
  const float* x = p.x + row * p.x_row;
  const float* w = p.w + column;
  for (int64_t k = 0; k < p.inner; ++k) {
    sum = multiply_add(broadcast(x[k * p.x_step]), load_part(w + k * p.w_row, count), sum);
  }
  store_part(y, sum, count);
}

template <int kVectors>
void multiply_panel(const Product& p, int64_t column) {
  int64_t row = 0;
  while (row < p.rows) {
    const int64_t left = p.rows - row;
    // Seven and eight rows as four and the rest: two short chains would wait for themselves.
    const int64_t now = left == 7 || left == 8 ? 4 : left < kMostRows ? left : kMostRows;
    switch (now) {
      case 1:
        multiply_fixed<1, kVectors>(p, row, column);
        break;
      case 2:
        multiply_fixed<2, kVectors>(p, row, column);
        break;
      case 3:
        multiply_fixed<3, kVectors>(p, row, column);
        break;
#if PLIMSOLL_LANES >= 8
      case 5:
        multiply_fixed<5, kVectors>(p, row, column);
        break;
      case 6:
        multiply_fixed<6, kVectors>(p, row, column);
        break;
#endif
      default:
        multiply_fixed<4, kVectors>(p, row, column);
        break;
    }
    row += now;
  }
}

void multiply(const Product& p) {
  int64_t column = 0;
  for (; column + kMostVectors * kLanes <= p.columns; column += kMostVectors * kLanes) {
    multiply_panel<kMostVectors>(p, column);
  }
#if PLIMSOLL_LANES == 16
  for (; column + 2 * kLanes <= p.columns; column += 2 * kLanes) multiply_panel<2>(p, column);
#endif
  for (; column + kLanes <= p.columns; column += kLanes) multiply_panel<1>(p, column);
  if (column == p.columns) return;
  for (int64_t row = 0; row < p.rows; ++row) multiply_part(p, row, column, p.columns - column);
}
