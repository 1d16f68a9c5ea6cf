// Loops of few_channels.cpp; see for_each_isa.h and few_channels.h.

// kRows × kRun: the kernel's rows, and width × channels.
template <int kRows, int kRun>
void add_few_channels(const PatchShape& s, const float* band, int64_t band_row, const float* dy,
                      const uint8_t* winners, int64_t windows, int64_t begin, int64_t end,
                      float* sums, float* bias_sums) {
  const int64_t tap_row = s.stride_rows * band_row;
  const int64_t tap_column = s.stride_columns * s.channels;
  const int64_t step = s.pool_columns * tap_column;
  const auto taps = static_cast<int32_t>(s.taps);
  for (int64_t group = begin; group < end; group += kLanes) {
    Floats total[kRows][kRun];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kRun; ++i) total[r][i] = load(sums + (r * kRun + i) * s.filters + group);
    }
    Floats bias = load(bias_sums + group);
    for (int64_t w = 0; w < windows; ++w) {
      const Floats d = load(dy + w * s.filters + group);
      const Ints winner = load_winners(winners + w * s.filters + group);
      int32_t tap = 0;
      for (int64_t row = 0; row < s.pool_rows; ++row) {
        const float* x = band + row * tap_row + w * step;
        for (int64_t column = 0; column < s.pool_columns; ++column, ++tap, x += tap_column) {
          const Lanes here = lanes_where_equal(winner, tap);
          for (int r = 0; r < kRows; ++r) {
            for (int i = 0; i < kRun; ++i) {
              total[r][i] =
                  multiply_add_lanes(here, d, broadcast(x[r * band_row + i]), total[r][i]);
            }
          }
        }
      }
      bias += winner < taps ? d : Floats{};
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kRun; ++i) {
        store(sums + (r * kRun + i) * s.filters + group, total[r][i]);
      }
    }
    store(bias_sums + group, bias);
  }
}

#if PLIMSOLL_LANES == 16
// From how many numbers of a row a 2 × 2 window takes those of one row of the kernel.
inline int64_t window_reach(const PatchShape& s) { return s.stride_columns * s.channels + s.run; }

// The same sums for 2 × 2 windows whose rows each fit in a vector: a lane picks its winner's
// numbers out of two rows, so that all four positions are added at once.
template <int kRows, int kRun>
void add_few_channels_picked(const PatchShape& s, const float* band, int64_t band_row,
                             const float* dy, const uint8_t* winners, int64_t windows,
                             int64_t begin, int64_t end, float* sums, float* bias_sums) {
  constexpr int32_t kTaps = 4;
  const int64_t tap_row = s.stride_rows * band_row;
  const int64_t tap_column = s.stride_columns * s.channels;
  const int64_t reach = window_reach(s);
  const auto right = static_cast<int32_t>(tap_column);
  for (int64_t group = begin; group < end; group += kLanes) {
    Floats total[kRows][kRun];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kRun; ++i) total[r][i] = load(sums + (r * kRun + i) * s.filters + group);
    }
    Floats bias = load(bias_sums + group);
    for (int64_t w = 0; w < windows; ++w) {
      const Floats d = load(dy + w * s.filters + group);
      const Ints winner = load_winners(winners + w * s.filters + group);
      const Lanes passes = lanes_where_less(winner, kTaps);
      const Ints corner = (-(winner & 1) & right) + (winner & 2) * (kLanes / 2);
      const float* x = band + w * 2 * tap_column;
      for (int r = 0; r < kRows; ++r, x += band_row) {
        const Floats top = load_first(x, reach);
        const Floats bottom = load_first(x + tap_row, reach);
        for (int i = 0; i < kRun; ++i) {
          total[r][i] = multiply_add_lanes(passes, d, pick(top, bottom, corner + i), total[r][i]);
        }
      }
      bias = add_lanes(passes, bias, d);
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kRun; ++i) {
        store(sums + (r * kRun + i) * s.filters + group, total[r][i]);
      }
    }
    store(bias_sums + group, bias);
  }
}
#endif

// Which loop, if any: sums and three more vectors must be in registers.
inline FewChannelsLoop pick_few_channels(const PatchShape& s) {
  if (s.filters % kLanes != 0 || kListFilters % kLanes != 0) return nullptr;
#if PLIMSOLL_LANES == 16
  if (s.kernel_rows == 3 && s.pool_rows == 2 && s.pool_columns == 2 && window_reach(s) <= kLanes) {
    if (s.run == 3) return &add_few_channels_picked<3, 3>;
    if (s.run == 6) return &add_few_channels_picked<3, 6>;
    if (s.run == 9) return &add_few_channels_picked<3, 9>;
  }
#endif
  const bool square3 = s.kernel_rows == 3;
  if (square3 && s.run == 3) return &add_few_channels<3, 3>;
#if PLIMSOLL_LANES == 16
  if (square3 && s.run == 6) return &add_few_channels<3, 6>;
  if (square3 && s.run == 9) return &add_few_channels<3, 9>;
  if (s.kernel_rows == 5 && s.run == 5) return &add_few_channels<5, 5>;
#endif
  return nullptr;
}

// The 2 × 2 windows of one pooled row, for filters [group, group + kVectors · kLanes). Either
// output may be null; a winner that ReLU stops is 4. bias: null, or one number a filter.
template <int kVectors>
void pool_few_channels_group(const PatchShape& s, bool relu, const float* band, int64_t band_row,
                             const float* kernel, const float* bias, int64_t windows, int64_t group,
                             float* y, uint8_t* winners) {
  constexpr int kTaps = 4;
  const int64_t tap_column = s.stride_columns * s.channels;
  for (int64_t w = 0; w < windows; ++w) {
    const float* x0 = band + w * 2 * tap_column;
    const float* x2 = x0 + s.stride_rows * band_row;
    Floats sums[kTaps][kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const Floats first = bias == nullptr ? Floats{} : load(bias + group + v * kLanes);
      for (int t = 0; t < kTaps; ++t) sums[t][v] = first;
    }
    const float* k = kernel + group;
    for (int64_t r = 0; r < s.kernel_rows; ++r, x0 += band_row, x2 += band_row) {
      for (int64_t i = 0; i < s.run; ++i, k += s.filters) {
        const Floats x[kTaps] = {broadcast(x0[i]), broadcast(x0[i + tap_column]), broadcast(x2[i]),
                                 broadcast(x2[i + tap_column])};
        for (int v = 0; v < kVectors; ++v) {
          const Floats weight = load(k + v * kLanes);
          for (int t = 0; t < kTaps; ++t) sums[t][v] = multiply_add(x[t], weight, sums[t][v]);
        }
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      Floats best = sums[0][v];
      Ints winner = {};
      if (relu) best = best < 0.0f ? Floats{} : best;
      for (int t = 1; t < kTaps; ++t) {
        Floats value = sums[t][v];
        if (relu) value = value < 0.0f ? Floats{} : value;
        const Ints wins = (value > best) | ((value != value) & (best == best));
        best = wins ? value : best;
        winner = wins ? Ints{} + t : winner;
      }
      if (relu) winner = best > 0.0f ? winner : Ints{} + kTaps;
      const int64_t at = w * s.filters + group + v * kLanes;
      if (y != nullptr) store(y + at, best);
      if (winners != nullptr) store_winners(winners + at, winner);
    }
  }
}

void pool_few_channels(const PatchShape& s, bool relu, const float* band, int64_t band_row,
                       const float* kernel, const float* bias, int64_t windows, float* y,
                       uint8_t* winners) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;
  int64_t group = 0;
  for (; group + kVectors * kLanes <= s.filters; group += kVectors * kLanes) {
    pool_few_channels_group<kVectors>(s, relu, band, band_row, kernel, bias, windows, group, y,
                                      winners);
  }
  for (; group + 2 * kLanes <= s.filters; group += 2 * kLanes) {
    pool_few_channels_group<2>(s, relu, band, band_row, kernel, bias, windows, group, y, winners);
  }
  for (; group < s.filters; group += kLanes) {
    pool_few_channels_group<1>(s, relu, band, band_row, kernel, bias, windows, group, y, winners);
  }
}
