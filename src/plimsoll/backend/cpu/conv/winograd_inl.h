// Loops of winograd.cpp; see for_each_isa.h and winograd.h.

#include "backend/cpu/simd/tiles_inl.h"
#include "backend/cpu/simd/transpose_inl.h"

#include "backend/cpu/conv/winograd_tiles_inl.h"

inline int64_t winograd_panel() { return kWide; }

// Rows of a product whose sums lie in registers, two vectors each.
#if PLIMSOLL_LANES == 16
constexpr int kProductRows = 12;
#else
constexpr int kProductRows = 6;
#endif

// kRows tiles, `row` numbers apart, times a panel of `inner` steps.
template <int kRows>
inline void multiply_tiles(const float* v, int64_t row, const float* panel, int64_t inner, float* m,
                           bool add) {
  Floats sums[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Floats{};
  for (int64_t k = 0; k < inner; ++k) {
    const Floats low = load(panel);
    const Floats high = load(panel + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const Floats value = broadcast(v[r * row + k]);
      sums[r][0] = multiply_add(value, low, sums[r][0]);
      sums[r][1] = multiply_add(value, high, sums[r][1]);
    }
    panel += kWide;
  }
  if (add) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      sums[r][0] += load(m + r * kWide);
      sums[r][1] += load(m + r * kWide + kLanes);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    store(m + r * kWide, sums[r][0]);
    store(m + r * kWide + kLanes, sums[r][1]);
  }
}

// Aᵀ m A of one vector of filters.
inline void untransform(const float* m, int64_t plane, Floats (&y)[2][2]) {
  Floats s[2][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Floats m1 = load(m + (4 + j) * plane);
    const Floats m2 = load(m + (8 + j) * plane);
    s[0][j] = load(m + j * plane) + m1 + m2;
    s[1][j] = m1 - m2 - load(m + (12 + j) * plane);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    y[i][0] = s[i][0] + s[i][1] + s[i][2];
    y[i][1] = s[i][1] - s[i][2] - s[i][3];
  }
}

// A tile's outputs of the panel that begins at filter f.
inline void store_outputs(const WinogradChunk& c, const TilePlace& at, int64_t f, const float* m,
                          int64_t plane) {
  const WinogradImages& g = c.images;
  const int64_t y_row = g.columns * g.filters;
  float* y = c.y + (at.image * g.rows + 2 * at.row) * y_row + 2 * at.column * g.filters;
  const int rows = 2 * at.row + 1 < g.rows ? 2 : 1;
  const int columns = 2 * at.column + 1 < g.columns ? 2 : 1;
  for (int64_t end = f + kWide; f < end && f < g.filters; f += kLanes, m += kLanes) {
    const int64_t lanes = g.filters - f < kLanes ? g.filters - f : kLanes;
    Floats sums[2][2];
    untransform(m, plane, sums);
    const Floats bias = c.bias != nullptr ? load_first(c.bias + f, lanes) : Floats{};
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        Floats sum = sums[i][j];
        if (c.bias != nullptr) sum += bias;
        if (c.relu) sum = sum < 0.0f ? Floats{} : sum;
        float* to = y + i * y_row + j * g.filters + f;
        if (lanes == kLanes) {
          store(to, sum);
        } else {
          store_first(to, sum, lanes);
        }
      }
    }
  }
}

// A tile's maxima, and which of its outputs they are; 4 where ReLU stops them.
inline void store_pooled(const WinogradChunk& c, const TilePlace& at, int64_t f, const float* m,
                         int64_t plane) {
  const WinogradImages& g = c.images;
  const int64_t position = (at.image * g.tile_rows() + at.row) * g.tile_columns() + at.column;
  for (int64_t end = f + kWide; f < end && f < g.filters; f += kLanes, m += kLanes) {
    const int64_t lanes = g.filters - f < kLanes ? g.filters - f : kLanes;
    Floats sums[2][2];
    untransform(m, plane, sums);
    const Floats bias = c.bias != nullptr ? load_first(c.bias + f, lanes) : Floats{};
    const auto output = [&](int t) {
      const Floats sum = c.bias != nullptr ? sums[t / 2][t % 2] + bias : sums[t / 2][t % 2];
      return c.relu ? (sum < 0.0f ? Floats{} : sum) : sum;
    };
    Floats best = output(0);
    Ints winner = {};
    for (int t = 1; t < 4; ++t) {
      const Floats value = output(t);
      const Ints wins = (value > best) | ((value != value) & (best == best));
      best = wins ? value : best;
      winner = wins ? Ints{} + t : winner;
    }
    if (c.relu) winner = best > 0.0f ? winner : Ints{} + 4;
    const int64_t to = position * g.filters + f;
    if (lanes == kLanes) {
      if (c.y != nullptr) store(c.y + to, best);
      if (c.winners != nullptr) store_winners(c.winners + to, winner);
      continue;
    }
    if (c.y != nullptr) store_first(c.y + to, best, lanes);
    uint8_t few[kLanes];
    store_winners(few, winner);
    if (c.winners != nullptr) __builtin_memcpy(c.winners + to, few, static_cast<size_t>(lanes));
  }
}

// One piece of channels after the other; where there are several, what they add to is kept of all
// panels.
void convolve_chunk(const WinogradChunk& c) {
  const WinogradImages& g = c.images;
  const WinogradScratch s = winograd_scratch(c.images, c.count, kWide);
  float* sources = c.scratch;
  float* products = c.scratch + s.source_floats();
  const float* panel = c.weights;
  for (int64_t begin = 0; begin < g.channels; begin += s.piece) {
    const int64_t channels = g.channels - begin < s.piece ? g.channels - begin : s.piece;
    transform_tiles(g, c.x, c.first, c.count, begin, channels, sources, s.source_row,
                    s.source_plane);
    const bool last = begin + channels == g.channels;
    for (int64_t f = 0; f < g.filters; f += kWide) {
      float* m = products + (s.pieces > 1 ? f / kWide * s.product_floats() : 0);
      for (int p = 0; p < kWinogradProducts; ++p, panel += channels * kWide) {
        for_each_tile<kProductRows>(c.count, [&](int64_t row, auto tile) {
          multiply_tiles<decltype(tile)::kRows>(sources + p * s.source_plane + row * s.source_row,
                                                s.source_row, panel, channels,
                                                m + p * s.product_plane + row * kWide, begin > 0);
        });
      }
      if (!last) continue;
      TilePlace at(g, c.first);
      for (int64_t t = 0; t < c.count; ++t, at.next()) {
        if (c.pools) {
          store_pooled(c, at, f, m + t * kWide, s.product_plane);
        } else {
          store_outputs(c, at, f, m + t * kWide, s.product_plane);
        }
      }
    }
  }
}

// Stores the products of a window's nine numbers, of kLanes filters.
inline void store_window(const Floats (&g)[3][3], float* to, int64_t product) {
  const Floats half = broadcast(0.5f);
  Floats s[4][3];
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    const Floats even = (g[0][j] + g[2][j]) * half;
    const Floats odd = g[1][j] * half;
    s[0][j] = g[0][j];
    s[1][j] = even + odd;
    s[2][j] = even - odd;
    s[3][j] = g[2][j];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Floats even = (s[i][0] + s[i][2]) * half;
    const Floats odd = s[i][1] * half;
    store(to, s[i][0]);
    store(to + product, even + odd);
    store(to + 2 * product, even - odd);
    store(to + 3 * product, s[i][2]);
    to += 4 * product;
  }
}

// What of a rotated weight kLanes filters and up to kLanes channels take:
// [number][channel][filter]. Its rows lie in channels, side by side in memory, so that they are
// transposed in registers.
inline void rotate_windows(const WinogradPack& p, int64_t channel, int64_t channels, int64_t filter,
                           int64_t filters, float* to) {
  const int64_t window = p.weights.channels * p.weights.filters;
  for (int64_t number = 0; number < 9; ++number, to += kLanes * kLanes) {
    const float* from = p.plain + (8 - number) * window + filter * p.weights.channels + channel;
#if PLIMSOLL_LANES >= 8
    if (filters == kLanes && channels == kLanes) {
      transpose_tile(from, p.weights.channels, kLanes, to, kLanes);
      continue;
    }
#endif
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t f = 0; f < kLanes; ++f) {
        to[c * kLanes + f] = f < filters ? from[f * p.weights.channels + c] : 0.0f;
      }
    }
  }
}

// One panel, all channels.
void pack_panel(const WinogradPack& p, int64_t index) {
  const WinogradWeights& w = p.weights;
  const int64_t window = w.channels * w.filters;
  const int64_t most = winograd_piece(w.channels);
  float transposed[9 * kLanes * kLanes];
  for (int64_t begin = 0; begin < w.channels; begin += most) {
    const int64_t channels = w.channels - begin < most ? w.channels - begin : most;
    float* panel = p.to + (begin * w.panels() + index * channels) * kWinogradProducts * kWide;
    for (int half = 0; half < 2; ++half) {
      const int64_t filter = index * kWide + half * kLanes;
      const int64_t left = w.filters - filter;
      const int64_t lanes = left < 0 ? 0 : left < kLanes ? left : kLanes;
      for (int64_t c = 0; c < channels; ++c) {
        Floats g[3][3];
        if (w.rotated && lanes > 0) {
          const int64_t lane = c % kLanes;
          const int64_t few = channels - c < kLanes ? channels - c : kLanes;
          if (lane == 0) rotate_windows(p, begin + c, few, filter, lanes, transposed);
          for (int n = 0; n < 9; ++n) {
            g[n / 3][n % 3] = load(transposed + (n * kLanes + lane) * kLanes);
          }
        } else {
          const float* from = p.plain + (begin + c) * w.filters + filter;
          for (int n = 0; n < 9; ++n) {
            g[n / 3][n % 3] = lanes > 0 ? load_first(from + n * window, lanes) : Floats{};
          }
        }
        store_window(g, panel + c * kWide + half * kLanes, channels * kWide);
      }
    }
  }
}
