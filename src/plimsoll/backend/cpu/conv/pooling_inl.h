// Loops of pooling.cpp; see for_each_isa.h. Windows2d says where windows lie, pooling.h. T: float,
// or uint16_t for bfloat16.

#include "backend/cpu/conv/pool_windows_inl.h"

// The first largest of the taps of a pixel, channel by channel; a NaN wins. kCount 0: any number
// of taps. An output that nobody reads is null.
template <int kCount, typename T, typename Winner>
inline void max_pixel(const T* x, const PoolTaps& taps, int64_t channels, T* y, Winner* winners) {
  const int count = kCount > 0 ? kCount : taps.count;
  for_each_vector(channels, [&](auto lanes) {
    Floats best = lanes.get(x + taps.offset[0]);
    Ints winner = Ints{} + taps.index[0];
    for (int t = 1; t < count; ++t) {
      const Floats v = lanes.get(x + taps.offset[t]);
      const Ints wins = (v > best) | ((v != v) & (best == best));
      best = wins ? v : best;
      winner = wins ? Ints{} + taps.index[t] : winner;
    }
    if (y != nullptr) lanes.put(y, best);
    if (winners != nullptr) put_winners(lanes, winners, winner);
  });
}

template <int kCount, typename T, typename Winner>
inline void max_row(const PoolShape& shape, const PoolTaps& whole, const T* x, int64_t row, T* y,
                    Winner* winners) {
  const int64_t channels = shape.channels;
  const int64_t out_row = row % shape.rows.output;
  const T* input = x + row / shape.rows.output * shape.input_elements();
  PoolTaps border;
  for (int64_t column = 0; column < shape.columns.output; ++column) {
    const int64_t at = (row * shape.columns.output + column) * channels;
    T* value = y == nullptr ? nullptr : y + at;
    Winner* winner = winners == nullptr ? nullptr : winners + at;
    if (shape.holds_window(out_row, column)) {
      max_pixel<kCount>(input + shape.corner(out_row, column), whole, channels, value, winner);
    } else {
      shape.find_taps(out_row, column, border);
      max_pixel<0>(input, border, channels, value, winner);
    }
  }
}

template <typename T, typename Winner>
void max_rows(const PoolShape& shape, const T* x, T* y, void* winners, int64_t begin, int64_t end) {
  auto* to = static_cast<Winner*>(winners);
  PoolTaps whole;
  shape.whole_window(whole);
  for (int64_t row = begin; row < end; ++row) {
    if (whole.count == 4) {
      max_row<4>(shape, whole, x, row, y, to);
    } else if (whole.count == 9) {
      max_row<9>(shape, whole, x, row, y, to);
    } else {
      max_row<0>(shape, whole, x, row, y, to);
    }
  }
}

template <typename T>
void max_rows_small(const PoolShape& shape, const T* x, T* y, void* winners, int64_t begin,
                    int64_t end) {
  max_rows<T, uint8_t>(shape, x, y, winners, begin, end);
}
template <typename T>
void max_rows_wide(const PoolShape& shape, const T* x, T* y, void* winners, int64_t begin,
                   int64_t end) {
  max_rows<T, int32_t>(shape, x, y, winners, begin, end);
}

// Windows that do not overlap: each input element belongs to at most one.
template <typename T, typename Winner>
inline void max_grad_pixel(const T* dy, const Winner* winners, const PoolTaps& taps,
                           int64_t channels, T* dx) {
  for_each_vector(channels, [&](auto lanes) {
    const Ints winner = get_winners(lanes, winners);
    const Ints d = reinterpret_cast<Ints>(lanes.get(dy));
    for (int t = 0; t < taps.count; ++t) {
      lanes.put(dx + taps.offset[t], reinterpret_cast<Floats>((winner == taps.index[t]) & d));
    }
  });
}

// Any windows: a pixel of the input gathers from the windows that hold it, in their order.
template <typename T, typename Winner>
inline void max_gather_pixel(const T* dy, const Winner* winners, const PoolTaps& windows,
                             int64_t channels, T* dx) {
  for_each_vector(channels, [&](auto lanes) {
    Floats sum = {};
    for (int t = 0; t < windows.count; ++t) {
      const int64_t at = windows.offset[t];
      const Ints taken = get_winners(lanes, winners + at) == windows.index[t];
      sum += reinterpret_cast<Floats>(taken & reinterpret_cast<Ints>(lanes.get(dy + at)));
    }
    lanes.put(dx, sum);
  });
}

// Rows of outputs where windows tile the input, rows of inputs otherwise.
template <typename T, typename Winner>
void max_grad_rows(const PoolShape& shape, const T* dy, const void* winners, T* dx, int64_t begin,
                   int64_t end) {
  const auto* from = static_cast<const Winner*>(winners);
  const int64_t channels = shape.channels;
  PoolTaps taps;
  if (shape.tiles()) {
    shape.whole_window(taps);
    for (int64_t row = begin; row < end; ++row) {
      T* to = dx + row / shape.rows.output * shape.input_elements();
      for (int64_t column = 0; column < shape.columns.output; ++column) {
        const int64_t at = (row * shape.columns.output + column) * channels;
        max_grad_pixel(dy + at, from + at, taps, channels,
                       to + shape.corner(row % shape.rows.output, column));
      }
    }
    return;
  }
  for (int64_t row = begin; row < end; ++row) {
    const int64_t image = row / shape.rows.input * shape.output_elements();
    RowWindows windows(shape, row % shape.rows.input);
    for (int64_t column = 0; column < shape.columns.input; ++column) {
      windows.at(column, [&](const PoolTaps& over, int64_t shift) {
        max_gather_pixel(dy + image + shift, from + image + shift, over, channels,
                         dx + (row * shape.columns.input + column) * channels);
      });
    }
  }
}

template <typename T>
void max_grad_rows_small(const PoolShape& shape, const T* dy, const void* winners, T* dx,
                         int64_t begin, int64_t end) {
  max_grad_rows<T, uint8_t>(shape, dy, winners, dx, begin, end);
}
template <typename T>
void max_grad_rows_wide(const PoolShape& shape, const T* dy, const void* winners, T* dx,
                        int64_t begin, int64_t end) {
  max_grad_rows<T, int32_t>(shape, dy, winners, dx, begin, end);
}

template <typename T>
inline void mean_pixel(const T* x, const PoolTaps& taps, int64_t channels, T* y) {
  const float count = static_cast<float>(taps.count);
  for_each_vector(channels, [&](auto lanes) {
    Floats sum = lanes.get(x + taps.offset[0]);
    for (int t = 1; t < taps.count; ++t) sum += lanes.get(x + taps.offset[t]);
    lanes.put(y, sum / count);
  });
}

template <typename T>
void mean_rows(const PoolShape& shape, const T* x, T* y, int64_t begin, int64_t end) {
  PoolTaps whole, border;
  shape.whole_window(whole);
  for (int64_t row = begin; row < end; ++row) {
    const T* input = x + row / shape.rows.output * shape.input_elements();
    const int64_t out_row = row % shape.rows.output;
    for (int64_t column = 0; column < shape.columns.output; ++column) {
      T* to = y + (row * shape.columns.output + column) * shape.channels;
      if (shape.holds_window(out_row, column)) {
        mean_pixel(input + shape.corner(out_row, column), whole, shape.channels, to);
      } else {
        shape.find_taps(out_row, column, border);
        mean_pixel(input, border, shape.channels, to);
      }
    }
  }
}

// Each input row gathers dy / (positions of the window inside of the input).
template <typename T>
void mean_grad_rows(const PoolShape& shape, const T* dy, T* dx, int64_t begin, int64_t end) {
  const int64_t channels = shape.channels;
  for (int64_t row = begin; row < end; ++row) {
    const T* image = dy + row / shape.rows.input * shape.output_elements();
    RowWindows windows(shape, row % shape.rows.input);
    for (int64_t column = 0; column < shape.columns.input; ++column) {
      T* to = dx + (row * shape.columns.input + column) * channels;
      windows.at(column, [&](const PoolTaps& over, int64_t shift) {
        const T* from = image + shift;
        for_each_vector(channels, [&](auto lanes) {
          Floats sum = {};
          for (int t = 0; t < over.count; ++t) {
            sum += lanes.get(from + over.offset[t]) / static_cast<float>(over.positions[t]);
          }
          lanes.put(to, sum);
        });
      });
    }
  }
}
