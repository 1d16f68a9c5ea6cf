// Loops of depthwise.cpp; see for_each_isa.h and depthwise.h. Lanes are channels.

#include "backend/cpu/simd/vector_walk_inl.h"

// kColumns neighbouring outputs of one vector of channels, from `column` on. What lies outside of
// the source is left out where they are `kBorder`.
template <int kColumns, bool kBorder, typename Vector>
inline void depthwise_columns(const DepthwiseRow& r, int64_t column, Vector lanes) {
  const ops::Window& w = r.columns;
  Floats sums[kColumns];
  const Floats start = r.bias == nullptr ? Floats{} : lanes.get(r.bias);
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) sums[c] = start;
  for (int64_t i = r.first_tap; i < r.last_tap; ++i) {
    const float* x = r.x + (r.row + i * r.rows_dilation) * r.x_row;
    const float* weights = r.w + i * r.w_row;
    for (int64_t j = 0; j < w.size; ++j) {
      const Floats weight = lanes.get(weights + j * r.w_column);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        const int64_t position = w.position(column + c, j);
        if (kBorder && !w.inside(position)) continue;
        sums[c] = multiply_add(lanes.get(x + position * r.all_channels), weight, sums[c]);
      }
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    if (r.relu) sums[c] = sums[c] > 0.0f || sums[c] != sums[c] ? sums[c] : Floats{};
    lanes.put(r.y + (column + c) * r.y_column, sums[c]);
  }
}

// The same of windows without gaps that follow each other, kTaps wide: a number of the source meets
// all of them while it is in a register. Sums are the same in the same order.
template <int kTaps, int kColumns, bool kBorder, typename Vector>
inline void depthwise_neighbours(const DepthwiseRow& r, int64_t column, Vector lanes) {
  const ops::Window& w = r.columns;
  Floats sums[kColumns];
  const Floats start = r.bias == nullptr ? Floats{} : lanes.get(r.bias);
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) sums[c] = start;
  const int64_t first = column - w.before;
  for (int64_t i = r.first_tap; i < r.last_tap; ++i) {
    const float* weights = r.w + i * r.w_row;
    Floats weight[kTaps];
#pragma GCC unroll 7
    for (int t = 0; t < kTaps; ++t) weight[t] = lanes.get(weights + t * r.w_column);
    const float* x = r.x + (r.row + i * r.rows_dilation) * r.x_row + first * r.all_channels;
#pragma GCC unroll 14
    for (int k = 0; k < kTaps + kColumns - 1; ++k) {
      if (kBorder && !w.inside(first + k)) continue;
      const Floats number = lanes.get(x + k * r.all_channels);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        const int t = k - c;
        if (t >= 0 && t < kTaps) sums[c] = multiply_add(number, weight[t], sums[c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    if (r.relu) sums[c] = sums[c] > 0.0f || sums[c] != sums[c] ? sums[c] : Floats{};
    lanes.put(r.y + (column + c) * r.y_column, sums[c]);
  }
}

// kColumns of a row from `column` on, of all its channels. kTaps 0: any windows.
template <int kTaps, int kColumns>
inline void depthwise_block(const DepthwiseRow& r, int64_t column) {
  const ops::Window& w = r.columns;
  const bool border =
      w.position(column, 0) < 0 || w.position(column + kColumns - 1, w.size - 1) >= w.input;
  for_each_vector(r.channels, [&](auto lanes) {
    if constexpr (kTaps == 0) {
      if (border) {
        depthwise_columns<kColumns, true>(r, column, lanes);
      } else {
        depthwise_columns<kColumns, false>(r, column, lanes);
      }
    } else if (border) {
      depthwise_neighbours<kTaps, kColumns, true>(r, column, lanes);
    } else {
      depthwise_neighbours<kTaps, kColumns, false>(r, column, lanes);
    }
  });
}

template <int kTaps>
inline void depthwise_row_of(const DepthwiseRow& r) {
  int64_t column = 0;
  // A sum of each of so many columns and the points' weights are in registers.
  constexpr int kMost = kTaps == 0 || (kTaps == 7 && kLanes != 16) ? 4 : 8;
  for (; column + kMost <= r.columns.output; column += kMost) {
    depthwise_block<kTaps, kMost>(r, column);
  }
  if constexpr (kMost == 8) {
    for (; column + 4 <= r.columns.output; column += 4) depthwise_block<kTaps, 4>(r, column);
  }
  for (; column < r.columns.output; ++column) depthwise_block<kTaps, 1>(r, column);
}

// One row of outputs.
void depthwise_row(const DepthwiseRow& r) {
  const bool near = r.columns.stride == 1 && r.columns.dilation == 1;
  if (near && r.columns.size == 2) return depthwise_row_of<2>(r);
  if (near && r.columns.size == 3) return depthwise_row_of<3>(r);
  if (near && r.columns.size == 5) return depthwise_row_of<5>(r);
  if (near && r.columns.size == 7) return depthwise_row_of<7>(r);
  depthwise_row_of<0>(r);
}

// Adds what kColumns neighbouring columns of a row of dy bring to kTaps neighbouring points of a
// row of the kernel, for kVectors vectors of channels. Several columns: of windows that follow each
// other without gaps, so that a number of the source meets all of them while it is in a register.
// Columns are added in order. `kBorder`: some of the points lie outside of the source.
template <int kTaps, int kColumns, bool kBorder, int kVectors, typename Vector>
[[gnu::always_inline]] inline void depthwise_grad_block(const DepthwiseGradRow& r, int64_t tap,
                                                        int64_t column, Vector lanes,
                                                        Floats (&sums)[kVectors][kTaps]) {
  const ops::Window& w = r.columns;
  const int64_t first = w.position(column, tap);
  Floats d[kVectors][kColumns];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      d[v][c] = lanes.get(r.dy + (column + c) * r.all_channels + v * kLanes);
    }
  }
#pragma GCC unroll 10
  for (int k = 0; k < kTaps + kColumns - 1; ++k) {
    const int64_t position = kColumns == 1 ? first + k * w.dilation : first + k;
    if (kBorder && !w.inside(position)) continue;
    const float* x = r.x + position * r.all_channels;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const Floats number = lanes.get(x + v * kLanes);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        const int t = k - c;
        if (t >= 0 && t < kTaps) sums[v][t] = multiply_add(number, d[v][c], sums[v][t]);
      }
    }
  }
}

// A row of dy, and kTaps points of a row of the kernel from `tap` on.
template <int kTaps, int kVectors, typename Vector>
inline void depthwise_points(const DepthwiseGradRow& r, int64_t tap, Vector lanes) {
  constexpr int kColumns = 4;
  const ops::Window& w = r.columns;
  Floats sums[kVectors][kTaps];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 7
    for (int t = 0; t < kTaps; ++t) {
      sums[v][t] = lanes.get(r.sums + (tap + t) * r.sums_column + v * kLanes);
    }
  }
  const auto crosses_border = [&](int64_t column, int64_t columns) {
    return w.position(column, tap) < 0 ||
           w.position(column + columns - 1, tap + kTaps - 1) >= w.input;
  };
  int64_t column = 0;
  if (w.stride == 1 && w.dilation == 1) {
    for (; column + kColumns <= w.output; column += kColumns) {
      if (crosses_border(column, kColumns)) {
        depthwise_grad_block<kTaps, kColumns, true>(r, tap, column, lanes, sums);
      } else {
        depthwise_grad_block<kTaps, kColumns, false>(r, tap, column, lanes, sums);
      }
    }
  }
  for (; column < w.output; ++column) {
    if (crosses_border(column, 1)) {
      depthwise_grad_block<kTaps, 1, true>(r, tap, column, lanes, sums);
    } else {
      depthwise_grad_block<kTaps, 1, false>(r, tap, column, lanes, sums);
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 7
    for (int t = 0; t < kTaps; ++t) {
      lanes.put(r.sums + (tap + t) * r.sums_column + v * kLanes, sums[v][t]);
    }
  }
}

// kTaps points from `tap` on, of all channels.
template <int kTaps>
inline void depthwise_taps(const DepthwiseGradRow& r, int64_t tap) {
  // Few points are few chains of sums: two vectors at once keep the units busy.
  constexpr int kVectors = kTaps <= 3 && kLanes == 16 ? 2 : 1;
  int64_t channel = 0;
  for (; channel + kVectors * kLanes <= r.channels; channel += kVectors * kLanes) {
    depthwise_points<kTaps, kVectors>(r, tap, WholeVector{channel});
  }
  for (; channel < r.channels; channel += kLanes) {
    const int64_t rest = r.channels - channel;
    if (rest >= kLanes) {
      depthwise_points<kTaps, 1>(r, tap, WholeVector{channel});
    } else {
      depthwise_points<kTaps, 1>(r, tap, PartVector{channel, rest});
    }
  }
}

// What a row of dy brings to a row of the kernel.
void depthwise_grad_row(const DepthwiseGradRow& r) {
  int64_t tap = 0;
  for (; tap + 7 <= r.columns.size; tap += 7) depthwise_taps<7>(r, tap);
  for (; tap + 5 <= r.columns.size; tap += 5) depthwise_taps<5>(r, tap);
  for (; tap + 3 <= r.columns.size; tap += 3) depthwise_taps<3>(r, tap);
  for (; tap < r.columns.size; ++tap) depthwise_taps<1>(r, tap);
}
