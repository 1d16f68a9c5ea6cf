// Loops of small_gradient.cpp; see for_each_isa.h and small_gradient.h.

#include "backend/cpu/simd/tiles_inl.h"

// Rows of a tile, so that its sums, kVectors a row, are in registers.
constexpr int small_rows(int vectors) {
  return kLanes == 16 || vectors == 1 ? 8 : vectors == 2 ? 6 : 4;
}

// What the next chunk reads, fetched while this one is summed: a tile reads some channels of many
// positions, and no processor looks that far ahead. Each tile fetches a line a step, of x first.
struct ChunkFetch {
  static constexpr int64_t kLine = 64;
  const char* x = nullptr;
  const char* dy = nullptr;
  int64_t x_bytes = 0;
  int64_t at = 0;  // bytes that tiles have fetched so far

  const char* take(int64_t steps) {
    const char* from = at < x_bytes ? x + at : dy + (at - x_bytes);
    at += steps * kLine;
    return from;
  }
};

// kRows rows from `row` on and kVectors vectors of columns from `column` on, of the last of which
// `lanes` lanes, over `steps` steps.
template <int kRows, int kVectors, bool kWhole>
void small_tile(const SmallSums& s, int64_t row, int64_t column, int64_t lanes, int64_t steps,
                bool add, const char* next) {
  Floats sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sums[r][v] = Floats{};
  }
  const float* x = s.x + row;
  const float* dy = s.dy + column;
  for (int64_t k = 0; k < steps; ++k) {
    Floats d[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      d[v] =
          kWhole || v + 1 < kVectors ? load(dy + v * kLanes) : load_first(dy + v * kLanes, lanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Floats value = broadcast(x[r]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sums[r][v] = multiply_add(value, d[v], sums[r][v]);
    }
    __builtin_prefetch(next, 0, 2);
    next += ChunkFetch::kLine;
    x += s.rows;
    dy += s.columns;
  }
  float* to = s.sums + row * s.columns + column;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r, to += s.columns) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      float* at = to + v * kLanes;
      if (kWhole || v + 1 < kVectors) {
        store(at, add ? sums[r][v] + load(at) : sums[r][v]);
      } else {
        store_first(at, add ? sums[r][v] + load_first(at, lanes) : sums[r][v], lanes);
      }
    }
  }
}

// All rows of kVectors vectors of columns.
template <int kVectors>
void small_columns(const SmallSums& s, int64_t column, int64_t steps, bool add, ChunkFetch& fetch) {
  const int64_t left = s.columns - column;
  const int64_t lanes = left < kVectors * kLanes ? left - (kVectors - 1) * kLanes : kLanes;
  for_each_tile<small_rows(kVectors)>(s.rows, [&](int64_t row, auto tile) {
    constexpr int kRows = decltype(tile)::kRows;
    const char* next = fetch.take(steps);
    if (lanes == kLanes) {
      small_tile<kRows, kVectors, true>(s, row, column, lanes, steps, add, next);
    } else {
      small_tile<kRows, kVectors, false>(s, row, column, lanes, steps, add, next);
    }
  });
}

void add_small_sums(const SmallSums& all) {
  SmallSums s = all;
  for (int64_t k = 0; k < all.steps; k += kChunkSteps) {
    const int64_t steps = all.steps - k < kChunkSteps ? all.steps - k : kChunkSteps;
    const bool add = all.add || k > 0;
    ChunkFetch fetch{.x = reinterpret_cast<const char*>(s.x + steps * s.rows),
                     .dy = reinterpret_cast<const char*>(s.dy + steps * s.columns),
                     .x_bytes = steps * s.rows * int64_t{sizeof(float)}};
    int64_t vectors = (s.columns + kLanes - 1) / kLanes;
    for (int64_t column = 0; vectors > 0;) {
      // Four are two times two, so that none is alone.
      const int64_t now = vectors == 4 ? 2 : vectors < 3 ? vectors : 3;
      if (now == 1) small_columns<1>(s, column, steps, add, fetch);
      if (now == 2) small_columns<2>(s, column, steps, add, fetch);
      if (now == 3) small_columns<3>(s, column, steps, add, fetch);
      column += now * kLanes;
      vectors -= now;
    }
    s.x += steps * s.rows;
    s.dy += steps * s.columns;
  }
}
