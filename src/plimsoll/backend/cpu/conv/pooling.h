#pragma once

// Where the windows of a pooling lie, precomputed so that loops only add offsets.
//
// An output pixel has taps: the positions of its window inside of the input, each with its offset
// from the image's start and its index in the window (row-major, padding counted). An input pixel
// has windows: the output pixels whose window holds it, in row-major order, each with its offset
// and the index that this pixel has there.

#include <cstddef>
#include <cstdint>

#include "ops/image/windows.h"

namespace plimsoll::backend::cpu {

// Larger windows are left to the reference.
inline constexpr int kMostTaps = 256;

struct PoolTaps {
  int count = 0;
  int64_t offset[kMostTaps];
  int32_t index[kMostTaps];
  int32_t positions[kMostTaps];  // find_windows: taps of that window
};

struct PoolShape {
  ops::Window rows;
  ops::Window columns;
  int64_t channels = 1;

  int64_t input_elements() const { return rows.input * columns.input * channels; }
  int64_t output_elements() const { return rows.output * columns.output * channels; }
  // Windows lie side by side from the first position on.
  bool tiles() const {
    return rows.stride == rows.size && columns.stride == columns.size && rows.before == 0 &&
           columns.before == 0 && rows.output * rows.size <= rows.input &&
           columns.output * columns.size <= columns.input;
  }

  bool holds_window(int64_t row, int64_t column) const {
    return holds(rows, row) && holds(columns, column);
  }
  // Offset of a window's first position; inside of the image where it holds the window.
  int64_t corner(int64_t row, int64_t column) const {
    return ((row * rows.stride - rows.before) * columns.input + column * columns.stride -
            columns.before) *
           channels;
  }
  // All taps of a window, offsets counted from its first position.
  void whole_window(PoolTaps& taps) const {
    taps.count = 0;
    for (int64_t r = 0; r < rows.size; ++r) {
      for (int64_t c = 0; c < columns.size; ++c) {
        taps.offset[taps.count] = (r * columns.input + c) * channels;
        taps.index[taps.count] = taps.count;
        ++taps.count;
      }
    }
  }

  // Taps of any window, offsets counted from the image's start.
  void find_taps(int64_t row, int64_t column, PoolTaps& taps) const {
    int count = 0;
    const int64_t top = row * rows.stride - rows.before;
    const int64_t left = column * columns.stride - columns.before;
    for (int64_t r = 0; r < rows.size; ++r) {
      if (!rows.inside(top + r)) continue;
      for (int64_t c = 0; c < columns.size; ++c) {
        if (!columns.inside(left + c)) continue;
        taps.offset[count] = ((top + r) * columns.input + left + c) * channels;
        taps.index[count] = static_cast<int32_t>(r * columns.size + c);
        ++count;
      }
    }
    taps.count = count;
  }

  // Whether the windows over a pixel of that column are as many as there can be, and lie between
  // the left and the right edge: a stride further on they are the same.
  bool whole_windows_over(int64_t column) const {
    const ops::Window& w = columns;
    const int64_t reach = column + w.before;
    const int64_t last = reach / w.stride;
    const int64_t first = reach < w.size ? 0 : (reach - w.size) / w.stride + 1;
    return reach >= w.size - 1 && last < w.output && first * w.stride >= w.before &&
           last * w.stride - w.before + w.size <= w.input;
  }
  void find_windows(int64_t row, int64_t column, PoolTaps& windows) const {
    int count = 0;
    const Span over_rows = windows_over(rows, row);
    const Span over_columns = windows_over(columns, column);
    for (int64_t r = over_rows.begin; r < over_rows.end; ++r) {
      const int64_t row_tap = row + rows.before - r * rows.stride;
      for (int64_t c = over_columns.begin; c < over_columns.end; ++c) {
        const int64_t column_tap = column + columns.before - c * columns.stride;
        windows.offset[count] = (r * columns.output + c) * channels;
        windows.index[count] = static_cast<int32_t>(row_tap * columns.size + column_tap);
        windows.positions[count] =
            static_cast<int32_t>(positions_inside(rows, r) * positions_inside(columns, c));
        ++count;
      }
    }
    windows.count = count;
  }

 private:
  struct Span {
    int64_t begin, end;
  };
  static bool holds(const ops::Window& w, int64_t at) {
    const int64_t begin = at * w.stride - w.before;
    return begin >= 0 && begin + w.size <= w.input;
  }
  // Windows of one dimension that hold the position.
  static Span windows_over(const ops::Window& w, int64_t position) {
    const int64_t reach = position + w.before;
    const int64_t begin = reach < w.size ? 0 : (reach - w.size) / w.stride + 1;
    const int64_t end = reach / w.stride + 1;
    return {begin, end < w.output ? end : w.output};
  }
  static int64_t positions_inside(const ops::Window& w, int64_t at) {
    const int64_t begin = at * w.stride - w.before;
    const int64_t end = begin + w.size;
    return (end < w.input ? end : w.input) - (begin > 0 ? begin : 0);
  }
};

}  // namespace plimsoll::backend::cpu
