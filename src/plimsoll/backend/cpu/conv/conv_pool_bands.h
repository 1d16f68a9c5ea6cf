#pragma once

// How the kernels of a convolution with a pooling after it walk an image: one pooled row at a
// time, over the "band" of source rows under it. Where the image has a border of padding, the band
// is a copy with zeros around; of an image of bfloat16, a copy in float32.

#include <algorithm>
#include <cstring>

#include "backend/cpu/conv/conv_pool.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd/bfloat16.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {

inline constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// Below this many products one thread is as fast as several.
inline constexpr double kProductsWorthATeam = 3e5;

inline int64_t rounded(int64_t floats) { return round_up(floats, kWidestVector); }

inline PatchShape patch_shape(const ops::Conv2dPoolGeometry& g) {
  PatchShape s;
  s.kernel_rows = g.conv.rows().size;
  s.run = g.conv.columns().size * g.conv.channels;
  s.row = rounded(s.run);
  s.filters = g.conv.filters;
  s.pool_rows = g.pool_rows;
  s.pool_columns = g.pool_columns;
  s.taps = g.taps();
  s.stride_rows = g.conv.rows().stride;
  s.stride_columns = g.conv.columns().stride;
  s.channels = g.conv.channels;
  return s;
}

// What the kernels know of their node, whichever of the three it is.
struct PooledBands {
  PatchShape shape;
  ops::Conv2dPoolGeometry geometry;
  int64_t samples = 1;
  int64_t band_columns = 1;  // source columns under all windows of a row, padding included
  int most_parts = 1;

  PooledBands(const NodeFacts& facts, const CpuOptions& options)
      : geometry(ops::conv2d_pool_geometry(facts.op(), facts.types())) {
    shape = patch_shape(geometry);
    samples = facts.samples() * facts.inputs[0].shape[0].count;
    band_columns = (geometry.columns() * shape.pool_columns - 1) * shape.stride_columns +
                   geometry.conv.columns().size;
    const double products = static_cast<double>(samples * geometry.rows() * geometry.columns()) *
                            static_cast<double>(shape.filters * shape.patch());
    find_windows(options.isa);
    most_parts = products < kProductsWorthATeam ? 1 : options.parts;
  }

  int64_t source_row() const { return geometry.conv.columns().input * shape.channels; }
  int64_t source_rows() const { return geometry.conv.rows().input; }
  int64_t band_row() const { return band_columns * shape.channels; }
  // Numbers of a band of rows, with room for the last patch's last vectors.
  int64_t band_numbers() const {
    return rounded(shape.band_rows() * band_row() +
                   std::max(kWidestVector, rounded(shape.row - shape.run)));
  }
  // The first source row under a pooled row; may lie in the padding.
  int64_t top(int64_t pooled_row) const {
    return pooled_row * shape.step_rows() - geometry.conv.rows().before;
  }
  int64_t left() const { return geometry.conv.columns().before; }
  // Source columns that a band holds.
  int64_t held_columns() const {
    return std::min(geometry.conv.columns().input, band_columns - left());
  }
  int64_t pooled_row() const { return geometry.columns() * shape.filters; }
  // Whether a pooled row's windows reach what is not in the image.
  bool has_border() const {
    return geometry.conv.rows().before > 0 || left() > 0 ||
           top(geometry.rows() - 1) + shape.band_rows() > source_rows() ||
           band_columns > geometry.conv.columns().input;
  }

  // The padding on both sides stays zero.
  void fill_band(const float* image, int64_t top, float* band) const noexcept {
    fill_rows(top, band, [&](int64_t from, float* to, int64_t count) {
      std::memcpy(to, image + from, static_cast<size_t>(count * kFloat));
    });
  }
  // Bands of an image of bfloat16: as it is, and widened.
  void fill_band(const uint16_t* image, int64_t top, uint16_t* band) const noexcept {
    fill_rows(top, band, [&](int64_t from, uint16_t* to, int64_t count) {
      std::memcpy(to, image + from, static_cast<size_t>(count) * sizeof(uint16_t));
    });
  }
  void fill_band(const uint16_t* image, int64_t top, float* band, Isa isa) const noexcept {
    fill_rows(top, band, [&](int64_t from, float* to, int64_t count) {
      widen_numbers(image + from, to, count, isa);
    });
  }

 private:
  // Vectors of AVX-512 hold a patch's rows whole, and lists that are short. Others go through more
  // windows for each load of sums: of the kernel as far as a band of them lies in the first cache,
  // and of the source with as much of the kernel as lies there.
  void find_windows(Isa isa) {
    constexpr int64_t kFirstCache = 32 << 10;
    if (isa == Isa::kAvx512) return;
    const int64_t window =
        shape.band_rows() * shape.pool_columns * shape.stride_columns * shape.channels * kFloat;
    shape.list_windows = kMostListWindows;
    while (shape.list_windows > 16 && shape.list_windows * window > kFirstCache) {
      shape.list_windows /= 2;
    }
    // Patches that registers hold whole go through in one iteration.
    constexpr int64_t kHeldWhole = 32;
    constexpr int64_t kListBytes = 128 << 10;
    if (shape.row <= kHeldWhole) return;
    shape.source_windows = kMostSourceWindows;
    while (shape.source_windows > 1 && (shape.source_windows >= 2 * geometry.columns() ||
                                        source_list(shape) * 2 * kFloat > kListBytes)) {
      shape.source_windows /= 2;
    }
  }

  template <typename Number, typename Copy>
  void fill_rows(int64_t top, Number* band, const Copy& copy) const noexcept {
    const int64_t count = held_columns() * shape.channels;
    for (int64_t r = 0; r < shape.band_rows(); ++r) {
      Number* to = band + r * band_row() + left() * shape.channels;
      if (geometry.conv.rows().inside(top + r)) {
        copy((top + r) * source_row(), to, count);
      } else {
        std::memset(to, 0, static_cast<size_t>(count) * sizeof(Number));
      }
    }
  }
};

}  // namespace plimsoll::backend::cpu
