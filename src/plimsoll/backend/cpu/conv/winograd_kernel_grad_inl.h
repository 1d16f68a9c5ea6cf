// Loops of winograd_kernel_grad.cpp; see for_each_isa.h and winograd.h.

#include "backend/cpu/simd/tiles_inl.h"

#include "backend/cpu/conv/winograd_tiles_inl.h"

constexpr int kGradRows = kLanes == 16 ? 12 : 6;  // channels of a tile of sums
inline int64_t winograd_grad_panel() { return kWide; }

// A dy Aᵀ of kLanes filters.
inline void store_gradient(const Floats (&d)[2][2], float* to, int64_t plane) {
  Floats s[4][2];
#pragma GCC unroll 2
  for (int j = 0; j < 2; ++j) {
    s[0][j] = d[0][j];
    s[1][j] = d[0][j] + d[1][j];
    s[2][j] = d[0][j] - d[1][j];
    s[3][j] = -d[1][j];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    store(to, s[i][0]);
    store(to + plane, s[i][0] + s[i][1]);
    store(to + 2 * plane, s[i][0] - s[i][1]);
    store(to + 3 * plane, -s[i][1]);
    to += 4 * plane;
  }
}

// The same of a panel of filters: [product][tile][filter]. Zeros come after the last row, column
// and filter.
inline void transform_gradients(const WinogradImages& g, const WinogradGradChunk& s, int64_t first,
                                int64_t filters, float* to) {
  const int64_t lanes[2] = {first_lanes_of(filters), second_lanes_of(filters)};
  const int64_t dy_row = g.columns * g.filters;
  const int64_t plane = s.tiles * kWide + kPlaneGap;
  TilePlace at(g, s.first_tile);
  for (int64_t t = 0; t < s.tiles; ++t, at.next(), to += kWide) {
    const float* dy =
        s.dy + (at.image * g.rows + 2 * at.row) * dy_row + 2 * at.column * g.filters + first;
    fetch_positions(dy + 2 * kTilesAhead * g.filters, 2, dy_row, g.filters, lanes[0] + lanes[1]);
    const bool below = 2 * at.row + 1 < g.rows;
    const bool beside = 2 * at.column + 1 < g.columns;
    for (int v = 0; v < 2 && lanes[v] > 0; ++v, dy += kLanes) {
      Floats d[2][2];
      if (below && beside && lanes[v] == kLanes) {
        d[0][0] = load(dy);
        d[0][1] = load(dy + g.filters);
        d[1][0] = load(dy + dy_row);
        d[1][1] = load(dy + dy_row + g.filters);
      } else {
        d[0][0] = load_first(dy, lanes[v]);
        d[0][1] = beside ? load_first(dy + g.filters, lanes[v]) : Floats{};
        d[1][0] = below ? load_first(dy + dy_row, lanes[v]) : Floats{};
        d[1][1] = below && beside ? load_first(dy + dy_row + g.filters, lanes[v]) : Floats{};
      }
      store_gradient(d, to + v * kLanes, plane);
    }
  }
}

// One of the products: kRows channels and kVectors vectors of filters, summed over tiles in order.
template <int kRows, int kVectors>
inline void sum_tiles(const float* source, int64_t row, const float* panel, int64_t tiles,
                      float* to) {
  Floats sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[r][v] = Floats{};
  }
  for (int64_t t = 0; t < tiles; ++t) {
    Floats filters[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) filters[v] = load(panel + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const Floats value = broadcast(source[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] = multiply_add(value, filters[v], sums[r][v]);
    }
    source += row;
    panel += kWide;
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(to + r * kWide + v * kLanes, sums[r][v]);
  }
}

// All products of a block of channels, `row` of them a tile, and a panel.
template <int kVectors>
void sum_products(const WinogradGradChunk& s, const float* panel, int64_t channels, int64_t row) {
  const float* source = s.source;
  float* sums = s.sums;
  for (int p = 0; p < kWinogradProducts; ++p) {
    for_each_tile<kGradRows>(channels, [&](int64_t channel, auto tile) {
      sum_tiles<decltype(tile)::kRows, kVectors>(source + channel, row, panel, s.tiles,
                                                 sums + channel * kWide);
    });
    source += s.tiles * row + kPlaneGap;
    panel += s.tiles * kWide + kPlaneGap;
    sums += channels * kWide + kPlaneGap;
  }
}

inline void put_gradient(float* to, Floats value, int64_t lanes, bool add) {
  if (lanes == kLanes) {
    store(to, add ? load(to) + value : value);
  } else {
    store_first(to, add ? load_first(to, lanes) + value : value, lanes);
  }
}

// Gᵀ s G of a channel and kLanes filters, to the nine positions of the kernel.
inline void finish_window(const float* sums, int64_t plane, float* dw, int64_t dw_position,
                          int64_t lanes, bool add) {
  Floats s[3][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Floats second = load(sums + (4 + j) * plane);
    const Floats third = load(sums + (8 + j) * plane);
    const Floats half = 0.5f * (second + third);
    s[0][j] = load(sums + j * plane) + half;
    s[1][j] = 0.5f * (second - third);
    s[2][j] = half + load(sums + (12 + j) * plane);
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    const Floats half = 0.5f * (s[i][1] + s[i][2]);
    put_gradient(dw, s[i][0] + half, lanes, add);
    put_gradient(dw + dw_position, 0.5f * (s[i][1] - s[i][2]), lanes, add);
    put_gradient(dw + 2 * dw_position, half + s[i][3], lanes, add);
    dw += 3 * dw_position;
  }
}

// `channels` × at most a panel of filters of the kernel's gradient, `dw` the first.
inline void sum_panel(const WinogradImages& g, const WinogradGradChunk& s, const float* panel,
                      int64_t channels, int64_t row, int64_t filters, float* dw) {
  const int64_t first = first_lanes_of(filters);
  const int64_t second = second_lanes_of(filters);
  if (second > 0) {
    sum_products<2>(s, panel, channels, row);
  } else {
    sum_products<1>(s, panel, channels, row);
  }
  const int64_t plane = channels * kWide + kPlaneGap;
  const int64_t position = g.channels * g.filters;
  const float* sums = s.sums;
  for (int64_t c = 0; c < channels; ++c, dw += g.filters, sums += kWide) {
    finish_window(sums, plane, dw, position, first, s.add);
    if (second > 0) finish_window(sums + kLanes, plane, dw + kLanes, position, second, s.add);
  }
}

void add_winograd_chunk(const WinogradImages& g, const WinogradGradChunk& s) {
  const int64_t panel_floats = kWinogradProducts * (s.tiles * kWide + kPlaneGap);
  float* panel = s.panels;
  for (int64_t f = 0; f < s.filters; f += kWide, panel += panel_floats) {
    transform_gradients(g, s, s.first_filter + f, s.filters - f, panel);
  }
  for (int64_t c = 0; c < s.channels; c += kBlockChannels) {
    const int64_t first = s.first_channel + c;
    const int64_t left = s.channels - c;
    const int64_t channels = left < kBlockChannels ? left : kBlockChannels;
    const int64_t row = round_up(channels, kLanes);
    // In whole vectors where the source has them, even if the last are another thread's.
    const int64_t there = g.channels - first;
    transform_tiles(g, s.x, s.first_tile, s.tiles, first, there < row ? there : row, s.source, row,
                    s.tiles * row + kPlaneGap);
    panel = s.panels;
    for (int64_t f = 0; f < s.filters; f += kWide, panel += panel_floats) {
      sum_panel(g, s, panel, channels, row, s.filters - f,
                s.dw + first * g.filters + s.first_filter + f);
    }
  }
}
