// Sums of a tile: a few rows of one factor times a panel, two vectors wide, of the other. Part of
// the loops of packed products and of kernel gradients.

#include "backend/cpu/simd/tiles_inl.h"

constexpr int kMostRows = 6;  // of a tile
inline int64_t panel_columns() { return kWide; }

// Where a tile's sums go: a panel's columns, of which the last may have fewer.
struct PanelTarget {
  float* y;
  int64_t y_row;
  int64_t first, second;  // lanes of its two vectors
  bool add;
  const float* bias;
  bool relu;
  bool whole;  // all lanes of both
  bool plain;  // and neither bias nor relu
};

inline void store_sum(Floats sum, const PanelTarget& t, int64_t at, int64_t lanes, float* y) {
  const bool whole = lanes == kLanes;
  if (t.add) sum += whole ? load(y) : load_first(y, lanes);
  if (t.bias != nullptr) sum += whole ? load(t.bias + at) : load_first(t.bias + at, lanes);
  if (t.relu) sum = sum < 0.0f ? Floats{} : sum;
  if (whole) {
    store(y, sum);
  } else {
    store_first(y, sum, lanes);
  }
}

// Not part of the loops over steps, which would keep their sums in memory for it.
[[gnu::noinline]] inline void store_sums(const Floats (*sums)[2], int rows, const PanelTarget& t) {
  for (int r = 0; r < rows; ++r) {
    float* y = t.y + r * t.y_row;
    store_sum(sums[r][0], t, 0, t.first, y);
    if (t.second > 0) store_sum(sums[r][1], t, kLanes, t.second, y + kLanes);
  }
}

// Where a tile's sums go comes from far away: its lines `ahead` numbers further on are fetched.
template <int kRows>
inline void fetch_target(const PanelTarget& t, int64_t ahead) {
  constexpr int64_t kLine = 16;
  for (int r = 0; r < kRows; ++r) {
    for (int64_t i = 0; i < kWide; i += kLine) {
      __builtin_prefetch(t.y + ahead + r * t.y_row + i, 1);
    }
  }
}

// Sums that are still in registers. Unrolled by word: rolled loops would put them into memory.
template <int kRows>
[[gnu::always_inline]] inline void finish_tile(const Floats (&sums)[kRows][2],
                                               const PanelTarget& t) {
  if (!t.whole) {
    Floats kept[kRows][2];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      kept[r][0] = sums[r][0];
      kept[r][1] = sums[r][1];
    }
    store_sums(kept, kRows, t);
    return;
  }
  float* y = t.y;
  if (t.plain && t.add) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r, y += t.y_row) {
      store(y, sums[r][0] + load(y));
      store(y + kLanes, sums[r][1] + load(y + kLanes));
    }
    return;
  }
  if (t.plain) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r, y += t.y_row) {
      store(y, sums[r][0]);
      store(y + kLanes, sums[r][1]);
    }
    return;
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r, y += t.y_row) {
    store_sum(sums[r][0], t, 0, kLanes, y);
    store_sum(sums[r][1], t, kLanes, kLanes, y + kLanes);
  }
}
