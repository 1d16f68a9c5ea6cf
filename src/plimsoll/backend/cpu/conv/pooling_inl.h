// Loops of pooling.cpp; see for_each_isa.h. Windows2d says where windows lie, pooling.h. T: float,
// or uint16_t for bfloat16.

#include "backend/cpu/simd/vector_walk_inl.h"

// The first largest of the taps of a pixel, channel by channel; a NaN wins. kCount 0: any number
// of taps. An output that nobody reads is null.
template <int kCount, typename T, typename Winner>
inline void max_pixel(const T* x, const PoolTaps& taps, int64_t channels, T* y, Winner* winners) {
  const int count = kCount > 0 ? kCount : taps.count;
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    Floats best = load(x + taps.offset[0] + c);
    Ints winner = Ints{} + taps.index[0];
    for (int t = 1; t < count; ++t) {
      const Floats v = load(x + taps.offset[t] + c);
      const Ints wins = (v > best) | ((v != v) & (best == best));
      best = wins ? v : best;
      winner = wins ? Ints{} + taps.index[t] : winner;
    }
    if (y != nullptr) store(y + c, best);
    if (winners != nullptr) store_winners(winners + c, winner);
  }
  for (; c < channels; ++c) {
    float best = number(x + taps.offset[0] + c);
    int32_t winner = taps.index[0];
    for (int t = 1; t < count; ++t) {
      const float v = number(x + taps.offset[t] + c);
      if (v > best || (v != v && best == best)) {
        best = v;
        winner = taps.index[t];
      }
    }
    if (y != nullptr) put_number(y + c, best);
    if (winners != nullptr) winners[c] = static_cast<Winner>(winner);
  }
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
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    const Ints winner = load_winners(winners + c);
    const Ints d = reinterpret_cast<Ints>(load(dy + c));
    for (int t = 0; t < taps.count; ++t) {
      store(dx + taps.offset[t] + c, reinterpret_cast<Floats>((winner == taps.index[t]) & d));
    }
  }
  for (; c < channels; ++c) {
    for (int t = 0; t < taps.count; ++t) {
      put_number(dx + taps.offset[t] + c, winners[c] == taps.index[t] ? number(dy + c) : 0.0f);
    }
  }
}

// Any windows: a pixel of the input gathers from the windows that hold it, in their order.
template <typename T, typename Winner>
inline void max_gather_pixel(const T* dy, const Winner* winners, const PoolTaps& windows,
                             int64_t channels, T* dx) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    Floats sum = {};
    for (int t = 0; t < windows.count; ++t) {
      const int64_t at = windows.offset[t] + c;
      const Ints taken = load_winners(winners + at) == windows.index[t];
      sum += reinterpret_cast<Floats>(taken & reinterpret_cast<Ints>(load(dy + at)));
    }
    store(dx + c, sum);
  }
  for (; c < channels; ++c) {
    float sum = 0.0f;
    for (int t = 0; t < windows.count; ++t) {
      const int64_t at = windows.offset[t] + c;
      sum += winners[at] == windows.index[t] ? number(dy + at) : 0.0f;
    }
    put_number(dx + c, sum);
  }
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
    const int64_t image = row / shape.rows.input;
    const int64_t first = image * shape.output_elements();
    for (int64_t column = 0; column < shape.columns.input; ++column) {
      shape.find_windows(row % shape.rows.input, column, taps);
      max_gather_pixel(dy + first, from + first, taps, channels,
                       dx + (row * shape.columns.input + column) * channels);
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
void mean_rows(const PoolShape& shape, const T* x, T* y, int64_t begin, int64_t end) {
  const int64_t channels = shape.channels;
  PoolTaps taps;
  for (int64_t row = begin; row < end; ++row) {
    const T* input = x + row / shape.rows.output * shape.input_elements();
    for (int64_t column = 0; column < shape.columns.output; ++column) {
      shape.find_taps(row % shape.rows.output, column, taps);
      T* to = y + (row * shape.columns.output + column) * channels;
      const float count = static_cast<float>(taps.count);
      for_each_vector(channels, [&](auto lanes) {
        Floats sum = lanes.get(input + taps.offset[0]);
        for (int t = 1; t < taps.count; ++t) sum += lanes.get(input + taps.offset[t]);
        lanes.put(to, sum / count);
      });
    }
  }
}

// Each input row gathers dy / (positions of the window inside of the input).
template <typename T>
void mean_grad_rows(const PoolShape& shape, const T* dy, T* dx, int64_t begin, int64_t end) {
  const int64_t channels = shape.channels;
  PoolTaps windows;
  for (int64_t row = begin; row < end; ++row) {
    const T* from = dy + row / shape.rows.input * shape.output_elements();
    for (int64_t column = 0; column < shape.columns.input; ++column) {
      shape.find_windows(row % shape.rows.input, column, windows);
      T* to = dx + (row * shape.columns.input + column) * channels;
      for_each_vector(channels, [&](auto lanes) {
        Floats sum = {};
        for (int t = 0; t < windows.count; ++t) {
          sum += lanes.get(from + windows.offset[t]) / static_cast<float>(windows.positions[t]);
        }
        lanes.put(to, sum);
      });
    }
  }
}
