// Loops of depthwise.cpp; see for_each_isa.h and depthwise.h. Lanes are channels.

#include "backend/cpu/simd/vector_walk_inl.h"

// kColumns neighbouring outputs of one vector of channels, all of whose columns lie in the source.
// `taps`: those of the row's points that lie in the source.
template <int kColumns, typename Vector>
inline void depthwise_columns(const DepthwiseRow& r, int64_t column, int64_t from, int64_t to,
                              Vector lanes) {
  Floats sums[kColumns];
  const Floats start = r.bias == nullptr ? Floats{} : lanes.get(r.bias);
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) sums[c] = start;
  const int64_t step = r.columns.stride * r.channels;
  for (int64_t i = r.first_tap; i < r.last_tap; ++i) {
    const float* x = r.x + (r.row + i * r.rows_dilation) * r.x_row +
                     (column * r.columns.stride - r.columns.before) * r.channels;
    const float* w = r.w + i * r.w_row;
    for (int64_t j = from; j < to; ++j) {
      const Floats weight = lanes.get(w + j * r.w_column);
      const float* at = x + j * r.columns.dilation * r.channels;
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        sums[c] = multiply_add(lanes.get(at + c * step), weight, sums[c]);
      }
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    if (r.relu) sums[c] = sums[c] > 0.0f || sums[c] != sums[c] ? sums[c] : Floats{};
    lanes.put(r.y + (column + c) * r.y_column, sums[c]);
  }
}

// One row of outputs.
void depthwise_row(const DepthwiseRow& r) {
  constexpr int kColumns = 4;
  const ops::Window& w = r.columns;
  const int64_t reach = (w.size - 1) * w.dilation;
  int64_t column = 0;
  while (column < w.output) {
    const int64_t left = column * w.stride - w.before;
    if (left >= 0 && column + kColumns <= w.output &&
        left + (kColumns - 1) * w.stride + reach < w.input) {
      for_each_vector(r.channels, [&](auto lanes) {
        depthwise_columns<kColumns>(r, column, 0, w.size, lanes);
      });
      column += kColumns;
      continue;
    }
    int64_t from = 0, to = w.size;
    while (from < to && left + from * w.dilation < 0) ++from;
    while (to > from && left + (to - 1) * w.dilation >= w.input) --to;
    for_each_vector(r.channels,
                    [&](auto lanes) { depthwise_columns<1>(r, column, from, to, lanes); });
    ++column;
  }
}

// Adds what columns [begin, end) of a row of dy bring to kTaps neighbouring points of a row of the
// kernel, all of which lie in the source there.
template <int kTaps, typename Vector>
inline void depthwise_points(const DepthwiseGradRow& r, int64_t tap, int64_t begin, int64_t end,
                             Vector lanes) {
  Floats sums[kTaps];
#pragma GCC unroll 4
  for (int t = 0; t < kTaps; ++t) sums[t] = lanes.get(r.sums + (tap + t) * r.sums_column);
  const ops::Window& w = r.columns;
  const float* x = r.x + (begin * w.stride + tap * w.dilation - w.before) * r.all_channels;
  const float* dy = r.dy + begin * r.all_channels;
  for (int64_t c = begin; c < end; ++c) {
    const Floats d = lanes.get(dy);
#pragma GCC unroll 4
    for (int t = 0; t < kTaps; ++t) {
      sums[t] = multiply_add(lanes.get(x + t * w.dilation * r.all_channels), d, sums[t]);
    }
    dy += r.all_channels;
    x += w.stride * r.all_channels;
  }
#pragma GCC unroll 4
  for (int t = 0; t < kTaps; ++t) lanes.put(r.sums + (tap + t) * r.sums_column, sums[t]);
}

template <int kTaps>
inline void depthwise_taps(const DepthwiseGradRow& r, int64_t tap) {
  // The columns whose window holds all of these points, and those that hold each.
  const ops::Window& w = r.columns;
  const auto first_of = [&](int64_t t) {
    int64_t c = 0;
    while (c < w.output && w.position(c, t) < 0) ++c;
    return c;
  };
  const auto last_of = [&](int64_t t) {
    int64_t c = w.output;
    while (c > 0 && w.position(c - 1, t) >= w.input) --c;
    return c;
  };
  const int64_t begin = first_of(tap);
  const int64_t end = last_of(tap + kTaps - 1);
  for_each_vector(r.channels, [&](auto lanes) {
    if (begin >= end) {
      for (int64_t t = tap; t < tap + kTaps; ++t) {
        depthwise_points<1>(r, t, first_of(t), last_of(t), lanes);
      }
      return;
    }
    depthwise_points<kTaps>(r, tap, begin, end, lanes);
    for (int64_t t = tap; t < tap + kTaps; ++t) {
      const int64_t first = first_of(t), last = last_of(t);
      if (first < begin) depthwise_points<1>(r, t, first, begin, lanes);
      if (last > end) depthwise_points<1>(r, t, end > first ? end : first, last, lanes);
    }
  });
}

// What a row of dy brings to a row of the kernel.
void depthwise_grad_row(const DepthwiseGradRow& r) {
  int64_t tap = 0;
  for (; tap + 3 <= r.columns.size; tap += 3) depthwise_taps<3>(r, tap);
  for (; tap < r.columns.size; ++tap) depthwise_taps<1>(r, tap);
}
