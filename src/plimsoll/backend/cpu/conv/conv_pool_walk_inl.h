// How conv_pool.h's gradients walk a pooled row, whatever their numbers are; part of a header of
// loops, after what they have for these numbers: number, the value as a float; add_list, sums over
// a list of patches; list_filters, a window's lists.

// One pooled row's share of the kernel gradient: `band` holds the source rows under it, `band_row`
// numbers apart, and dy and winners its windows; filters [begin, end). sums: [filter][patch],
// bias_sums: [filter].
template <typename Number>
void add_kernel_gradient(const PatchShape& s, const Number* band, int64_t band_row,
                         const Number* dy, const uint8_t* winners, int64_t windows, int64_t begin,
                         int64_t end, float* sums, float* bias_sums) {
  int32_t tap_offset[256];
  for (int64_t t = 0; t < s.taps; ++t) {
    tap_offset[t] = static_cast<int32_t>(t / s.pool_columns * s.stride_rows * band_row +
                                         t % s.pool_columns * s.stride_columns * s.channels);
  }
  for (int64_t t = s.taps; t < 256; ++t) tap_offset[t] = 0;
  const auto step = static_cast<int32_t>(s.pool_columns * s.stride_columns * s.channels);
  Number values[kListFilters][kMostListWindows];
  int32_t offsets[kListFilters][kMostListWindows];
  for (int64_t first = 0; first < windows; first += s.list_windows) {
    const int64_t last = first + s.list_windows < windows ? first + s.list_windows : windows;
    for (int64_t group = begin; group < end; group += kListFilters) {
      const int64_t filters = group + kListFilters < end ? kListFilters : end - group;
      int64_t counts[kListFilters] = {};
      float totals[kListFilters] = {};
      const auto list = [&](int64_t w, int64_t f, const Number* d, const uint8_t* winner) {
        const bool passes = winner[f] < s.taps;
        values[f][counts[f]] = d[f];
        offsets[f][counts[f]] = static_cast<int32_t>(w) * step + tap_offset[winner[f]];
        counts[f] += passes ? 1 : 0;
      };
      for (int64_t w = first; w < last; ++w) {
        const Number* d = dy + w * s.filters + group;
        const uint8_t* winner = winners + w * s.filters + group;
        if (filters == kListFilters) {
#pragma GCC unroll 16
          for (int64_t f = 0; f < kListFilters; ++f) list(w, f, d, winner);
#pragma omp simd
          for (int64_t f = 0; f < kListFilters; ++f)
            totals[f] += winner[f] < s.taps ? number(d[f]) : 0.0f;
        } else {
          for (int64_t f = 0; f < filters; ++f) {
            list(w, f, d, winner);
            totals[f] += winner[f] < s.taps ? number(d[f]) : 0.0f;
          }
        }
      }
      for (int64_t f = 0; f < filters; ++f) {
        bias_sums[group + f] += totals[f];
        add_list(s.kernel_rows, s.row, values[f], offsets[f], counts[f], band, band_row,
                 sums + (group + f) * s.patch(), s.row);
      }
    }
  }
}

// One pooled row's share of the source gradient, added to a band of rows like that above; rows
// [first_row, end_row) of it alone. `kernel`: [filter][patch], zeros after each run. `values` and
// `offsets` have room for source_list(s) numbers.
template <typename Number>
void add_source_gradient(const PatchShape& s, const Number* kernel, const Number* dy,
                         const uint8_t* winners, int64_t windows, int64_t first_row,
                         int64_t end_row, Number* values, int32_t* offsets, float* band,
                         int64_t band_row) {
  const int64_t step = s.pool_columns * s.stride_columns * s.channels;
  const int64_t most = s.filters + kWidestVector;
  const int64_t lists = window_lists(s);
  const int64_t numbers = s.source_windows == 1 ? s.row : kMostColumns * kLanes;
  int64_t counts[kMostSourceWindows][257];
  for (int64_t first = 0; first < windows; first += s.source_windows) {
    const int64_t count = windows - first < s.source_windows ? windows - first : s.source_windows;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = (first + i) * s.filters;
      list_filters(s, dy + at, winners + at, most, values + i * lists, offsets + i * lists,
                   counts[i]);
    }
    for (int64_t column = 0; column < s.row; column += numbers) {
      const int64_t row = s.row - column < numbers ? s.row - column : numbers;
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t t = 0; t < s.taps; ++t) {
          const int64_t top = t / s.pool_columns * s.stride_rows;
          const int64_t skipped = first_row > top ? first_row - top : 0;
          const int64_t bottom = top + s.kernel_rows < end_row ? top + s.kernel_rows : end_row;
          if (bottom <= top + skipped) continue;
          const int64_t at = i * lists + t * most;
          add_list(bottom - top - skipped, row, values + at, offsets + at, counts[i][t],
                   kernel + skipped * s.row + column, s.row,
                   band + (top + skipped) * band_row + (first + i) * step +
                       t % s.pool_columns * s.stride_columns * s.channels + column,
                   band_row);
        }
      }
    }
  }
}
