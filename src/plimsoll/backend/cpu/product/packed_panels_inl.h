// Panels of packed products: made from one factor, and met by rows of the other. Part of the loops
// of packed_product.cpp.

#include "backend/cpu/product/panel_sums_inl.h"
#include "backend/cpu/simd/transpose_inl.h"

// Rows of x as a panel meets them: row r's step k is at r · row + k · step.
struct PanelRows {
  const float* x;
  int64_t row, step;
};

// Where a panel's steps of w come from, and what else happens beside them.
enum class PanelUse {
  kRead,   // they lie in the panel
  kMake,   // they lie plain, and go to the panel too
  kFetch,  // as kRead; stretches of a later piece of w are fetched
};
// Where steps of w lie plain, or stretches of which one is fetched every kFetchSteps.
struct PlainSteps {
  const float* w;
  int64_t step;
};

// Four panels' width of w is fetched at once, by one of the first four tiles that meet a panel: a
// piece of w comes from memory while the one before it is multiplied.
constexpr int64_t kFetchSteps = 16;
constexpr int64_t kFetchTiles = 4;
constexpr int64_t kFetchFloats = 4 * kWide;

inline void fetch_stretch(const float* w) {
  constexpr int64_t kLine = 16;
  for (int64_t i = 0; i < kFetchFloats; i += kLine) __builtin_prefetch(w + i, 0, 2);
}

// kRows rows of x and `inner` steps of two vectors. Unrolled by word: rolled loops over the sums
// put them into memory, which takes a tenth of the time of 256 steps.
template <int kRows, PanelUse kUse>
void multiply_rows(const PanelRows& from, float* panel, const float* w, int64_t step, int64_t inner,
                   const PanelTarget& t) {
  constexpr int64_t kAhead = 16;  // steps
  const int64_t x_row = from.row, x_step = from.step;
  if (t.add) fetch_target<kRows>(t, 0);
  Floats sums[kRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Floats{};
  const float* x = from.x;
  const auto take_step = [&]() __attribute__((always_inline)) {
    const float* here = kUse == PanelUse::kMake ? w : panel;
    const Floats low = load(here);
    const Floats high = load(here + kLanes);
    if (kUse == PanelUse::kMake) {
      __builtin_prefetch(w + kAhead * step);
      store(panel, low);
      store(panel + kLanes, high);
      w += step;
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const Floats value = broadcast(x[r * x_row]);
      sums[r][0] = multiply_add(value, low, sums[r][0]);
      sums[r][1] = multiply_add(value, high, sums[r][1]);
    }
    x += x_step;
    panel += kWide;
  };
  int64_t k = 0;
  if (kUse == PanelUse::kFetch) {
    for (; k + kFetchSteps <= inner; k += kFetchSteps, w += step) {
      fetch_stretch(w);
#pragma GCC unroll 1
      for (int64_t i = 0; i < kFetchSteps; ++i) take_step();
    }
  }
  for (; k < inner; ++k) take_step();
  finish_tile(sums, t);
}

// Rows that lie side by side, each step after the other.
template <int kRows>
void pack_rows(const float* x, int64_t x_step, [[maybe_unused]] int64_t rows_left, int64_t count,
               float* to) {
#if PLIMSOLL_LANES == 8
  if (kRows == 6 && rows_left >= kLanes) {  // the next step overwrites what is too much
    for (int64_t k = 0; k < count; ++k) store(to + k * 6, load(x + k * x_step));
    return;
  }
#endif
  for (int64_t k = 0; k < count; ++k) {
    for (int r = 0; r < kRows; ++r) to[k * kRows + r] = x[k * x_step + r];
  }
}

// Panels of `columns` columns from `w` on, `count` steps each; lanes after the last are zeros.
inline void pack_plain(const float* w, int64_t w_row, int64_t count, int64_t columns,
                       float* panels) {
  constexpr int64_t kAtOnce = 4 * kWide;
  constexpr int64_t kAhead = 12;  // steps
  for (int64_t from = 0; from < columns; from += kAtOnce) {
    const int64_t to = columns - from < kAtOnce ? columns : from + kAtOnce;
    for (int64_t k = 0; k < count; ++k) {
      const float* row = w + k * w_row;
      for (int64_t c = from; c < to; c += kWide) {
        __builtin_prefetch(row + c + kAhead * w_row);
        float* panel = panels + c * count + k * kWide;
        if (to - c >= kWide) {
          store(panel, load(row + c));
          store(panel + kLanes, load(row + c + kLanes));
        } else {
          const int64_t left = to - c;
          store(panel, load_first(row + c, left < kLanes ? left : kLanes));
          store(panel + kLanes,
                left > kLanes ? load_first(row + c + kLanes, left - kLanes) : Floats{});
        }
      }
    }
  }
}

inline void pack_transposed(const float* w, int64_t w_row, int64_t count, int64_t columns,
                            float* panels) {
  for (int64_t c = 0; c < columns; c += kLanes) {
    const int64_t lanes = columns - c < kLanes ? columns - c : kLanes;
    float* panel = panels + c / kWide * kWide * count + c % kWide;
    const float* from = w + c * w_row;
    int64_t k = 0;
#if PLIMSOLL_LANES >= 8
    if (lanes == kLanes) {
      for (; k + kLanes <= count; k += kLanes) {
        transpose_tile(from + k, w_row, kLanes, panel + k * kWide, kWide);
      }
    }
#endif
    for (; k < count; ++k) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        panel[k * kWide + lane] = lane < lanes ? from[lane * w_row + k] : 0.0f;
      }
    }
  }
  // A last panel of one vector: the other is multiplied too.
  if ((columns + kLanes - 1) / kLanes % 2 == 0) return;
  float* panel = panels + columns / kWide * kWide * count + kLanes;
  for (int64_t k = 0; k < count; ++k) store(panel + k * kWide, Floats{});
}
