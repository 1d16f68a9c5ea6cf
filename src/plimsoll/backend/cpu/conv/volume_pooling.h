#pragma once

// Where the windows of a pooling over volumes lie in dense arrays, channels last.

#include <algorithm>
#include <cstdint>

#include "backend/cpu/cpu_kernels.h"
#include "ops/image/windows.h"

namespace plimsoll::backend::cpu {

struct VolumePooling {
  ops::Windows windows;
  int64_t channels = 1;

  // What one output takes in one channel.
  int64_t winner_bytes() const { return (windows.taps() + 7) / 8; }

  // body(tap, offset of its channels in the input) for the taps of an output that lie inside of the
  // input; outputs are counted through all volumes.
  template <typename Body>
  void for_each_tap(int64_t output, Body body) const {
    const ops::Window& slabs = windows.slabs();
    const ops::Window& rows = windows.rows();
    const ops::Window& columns = windows.columns();
    const Taps over_columns = taps_of(columns, output % columns.output);
    output /= columns.output;
    const Taps over_rows = taps_of(rows, output % rows.output);
    output /= rows.output;
    const Taps over_slabs = taps_of(slabs, output % slabs.output);
    const int64_t volume = output / slabs.output;
    for (int64_t s = over_slabs.first; s < over_slabs.last; ++s) {
      const int64_t slab = volume * slabs.input + over_slabs.start + s;
      for (int64_t i = over_rows.first; i < over_rows.last; ++i) {
        const int64_t row = slab * rows.input + over_rows.start + i;
        for (int64_t j = over_columns.first; j < over_columns.last; ++j) {
          body((s * rows.size + i) * columns.size + j,
               (row * columns.input + over_columns.start + j) * channels);
        }
      }
    }
  }

 private:
  // Taps [first, last) are inside; tap 0 would stand at `start`.
  struct Taps {
    int64_t first, last, start;
  };
  static Taps taps_of(const ops::Window& window, int64_t output) {
    const int64_t start = window.position(output, 0);
    return {std::max<int64_t>(-start, 0), std::min(window.size, window.input - start), start};
  }
};

// max_pool3d and its gradient, of float32.
CpuKernel make_volume_pooling(const NodeFacts& facts, const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
