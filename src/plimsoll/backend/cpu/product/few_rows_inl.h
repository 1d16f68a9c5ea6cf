// Loops of few_rows.cpp; see for_each_isa.h and few_rows.h.

#include "backend/cpu/simd/functions_inl.h"

// Adds what kSteps rows of w from `k` on bring to one vector of columns of all rows of y. The next
// kSteps rows are fetched, past the last row for nothing: each lies in other pages, and processors
// look ahead within one.
template <int kSteps, typename Vector>
inline void few_rows_steps(const FewRows& p, int64_t k, Vector lanes) {
  const float* w = p.w + k * p.w_row;
  Floats factors[kSteps];
#pragma GCC unroll 8
  for (int i = 0; i < kSteps; ++i) {
    factors[i] = lanes.get(w + i * p.w_row);
    __builtin_prefetch(w + (i + kSteps) * p.w_row + lanes.at, 0, 2);
  }
  const float* x = p.x + k;
  float* y = p.y;
  for (int64_t row = 0; row < p.rows; ++row, x += p.x_row, y += p.y_row) {
    Floats sum = broadcast(x[0]) * factors[0];
#pragma GCC unroll 8
    for (int i = 1; i < kSteps; ++i) sum = multiply_add(broadcast(x[i]), factors[i], sum);
    lanes.put(y, k == 0 ? sum : lanes.get(y) + sum);
  }
}

// Columns whose sums stay in a cache.
inline void few_rows_columns(const FewRows& p) {
  constexpr int kSteps = 8;
  int64_t k = 0;
  for (; k + kSteps <= p.inner; k += kSteps) {
    for_each_vector(p.columns, [&](auto lanes) { few_rows_steps<kSteps>(p, k, lanes); });
  }
  for (; k < p.inner; ++k) {
    for_each_vector(p.columns, [&](auto lanes) { few_rows_steps<1>(p, k, lanes); });
  }
  if (p.bias == nullptr && !p.relu) return;
  for (int64_t row = 0; row < p.rows; ++row) {
    float* y = p.y + row * p.y_row;
    for_each_vector(p.columns, [&](auto lanes) {
      Floats sum = lanes.get(y);
      if (p.bias != nullptr) sum += lanes.get(p.bias);
      if (p.relu) sum = sum < 0.0f ? Floats{} : sum;
      lanes.put(y, sum);
    });
  }
}

void few_rows_forward(const FewRows& all) {
  int64_t wanted = kMostSums / all.rows;
  if (wanted < kLeastColumns) wanted = kLeastColumns;
  const int64_t most = (wanted + kLanes - 1) / kLanes * kLanes;
  FewRows p = all;
  for (int64_t column = 0; column < all.columns; column += most) {
    p.columns = all.columns - column < most ? all.columns - column : most;
    few_rows_columns(p);
    p.w += most;
    p.y += most;
    if (p.bias != nullptr) p.bias += most;
  }
}

// kRows rows of dy from `row` on and kInner rows of w from `i` on; the rows of w after them are
// fetched where these are the first to meet them.
template <int kRows, int kInner, bool kFetches>
void few_rows_dots(const FewRows& p, int64_t row, int64_t i) {
  Floats sums[kRows][kInner];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int j = 0; j < kInner; ++j) sums[r][j] = Floats{};
  }
  const float* x = p.x + row * p.x_row;
  const float* w = p.w + i * p.w_row;
  for_each_vector(
      p.columns, [&](auto lanes) __attribute__((always_inline)) {
        Floats factors[kInner];
#pragma GCC unroll 3
        for (int j = 0; j < kInner; ++j) {
          factors[j] = lanes.get(w + j * p.w_row);
          if (kFetches) __builtin_prefetch(w + (j + kInner) * p.w_row + lanes.at, 0, 2);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const Floats value = lanes.get(x + r * p.x_row);
#pragma GCC unroll 3
          for (int j = 0; j < kInner; ++j) sums[r][j] = multiply_add(value, factors[j], sums[r][j]);
        }
      });
  float* y = p.y + row * p.y_row + i;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int j = 0; j < kInner; ++j) {
      float* to = y + r * p.y_row + j;
      const float sum = sum_of_lanes(sums[r][j]);
      *to = p.add ? *to + sum : sum;
    }
  }
}

template <int kInner>
void few_rows_of_weights(const FewRows& p, int64_t i) {
  constexpr int kMost = kLanes == 16 ? 8 : 4;
  int64_t row = 0;
  if (p.rows >= kMost) {
    few_rows_dots<kMost, kInner, true>(p, 0, i);
    row = kMost;
  }
  for (; row + kMost <= p.rows; row += kMost) few_rows_dots<kMost, kInner, false>(p, row, i);
  if constexpr (kMost == 8) {
    for (; row + 4 <= p.rows; row += 4) few_rows_dots<4, kInner, true>(p, row, i);
  }
  for (; row + 2 <= p.rows; row += 2) few_rows_dots<2, kInner, true>(p, row, i);
  for (; row < p.rows; ++row) few_rows_dots<1, kInner, true>(p, row, i);
}

void few_rows_gradient(const FewRows& p) {
  int64_t i = 0;
  for (; i + 3 <= p.inner; i += 3) few_rows_of_weights<3>(p, i);
  for (; i < p.inner; ++i) few_rows_of_weights<1>(p, i);
}
