#include "backend/cpu/conv/patches.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kLineFloats = 16;
// A thread's patches lie in the second cache, beside panels of the kernel.
constexpr int64_t kPatchFloats = 64 << 10;
constexpr int64_t kMostPositions = 1024;

void copy_numbers(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace

int64_t patch_positions(int64_t numbers) {
  return std::clamp(kPatchFloats / std::max<int64_t>(numbers, 1), kLeastPositions, kMostPositions);
}

void Patches::copy(const float* images, int64_t begin, int64_t end, float* to) const noexcept {
  const int64_t slab_numbers = rows.size * columns.size * count;
  const int64_t slab_floats = rows.input * columns.input * channels;
  const int64_t slab_positions = rows.output * columns.output;
  for (int64_t p = begin; p < end; ++p) {
    const float* image = images + p / positions() * slabs.input * slab_floats;
    const int64_t slab = p % positions() / slab_positions;
    const int64_t row = p % slab_positions / columns.output;
    const int64_t left = p % columns.output * columns.stride - columns.before;
    for (int64_t s = 0; s < slabs.size; ++s, to += slab_numbers) {
      const int64_t at = slabs.position(slab, s);
      if (slabs.inside(at)) {
        copy_rows(image + at * slab_floats, row, left, to);
      } else {
        std::memset(to, 0, static_cast<size_t>(slab_numbers) * sizeof(float));
      }
    }
  }
}

void Patches::copy_rows(const float* slab, int64_t row, int64_t left, float* to) const noexcept {
  const int64_t run = columns.size * count;
  const bool together = count == channels && columns.dilation == 1;
  const bool inside = left >= 0 && left + columns.size <= columns.input;
  for (int64_t i = 0; i < rows.size; ++i, to += run) {
    const int64_t at = rows.position(row, i);
    if (!rows.inside(at)) {
      std::memset(to, 0, static_cast<size_t>(run) * sizeof(float));
      continue;
    }
    const float* from = slab + at * columns.input * channels;
    if (together && inside) {
      copy_numbers(from + left * channels, run, to);
      continue;
    }
    for (int64_t j = 0; j < columns.size; ++j) {
      const int64_t column = left + j * columns.dilation;
      if (columns.inside(column)) {
        copy_numbers(from + column * channels, count, to + j * count);
      } else {
        std::memset(to + j * count, 0, static_cast<size_t>(count) * sizeof(float));
      }
    }
  }
}

PatchProduct::PatchProduct(const Patches& patches, int64_t positions, int64_t columns,
                           bool transposed, Isa isa)
    : patches_(patches),
      columns_(columns),
      transposed_(transposed),
      at_once_(std::min(patch_positions(patches.numbers()), positions)),
      patch_floats_(round_up(at_once_ * patches.numbers(), kLineFloats)),
      multiply_(pick_packed_multiply(isa)) {
  PackedProduct product;
  product.rows = at_once_;
  product.inner = patches.numbers();
  product.columns = columns;
  product.transposed = transposed;
  packed_floats_ = round_up(cpu::packed_floats(isa, product), kLineFloats);
}

void PatchProduct::run(const float* images, int64_t begin, int64_t end, const Target& target,
                       float* scratch) const noexcept {
  const int64_t iterations = ceil_div(end - begin, at_once_);
  if (iterations == 0) return;
  const int64_t each = ceil_div(end - begin, iterations);
  for (int64_t from = begin; from < end; from += each) {
    const int64_t count = std::min(each, end - from);
    patches_.copy(images, from, from + count, scratch);
    PackedProduct p;
    p.rows = count;
    p.inner = patches_.numbers();
    p.columns = columns_;
    p.x = scratch;
    p.x_row = patches_.numbers();
    p.w = target.kernel;
    p.w_row = target.kernel_row;
    p.transposed = transposed_;
    p.y = target.y + (from - begin) * target.y_row;
    p.y_row = target.y_row;
    p.bias = target.bias;
    p.relu = target.relu;
    multiply_(p, scratch + patch_floats_);
  }
}

std::vector<GradientPhase> gradient_phases(const ops::Window& w) {
  // Position r of the source meets point t where r + before − t · dilation is a multiple of the
  // stride; then so does point t + tap_step, as many outputs before.
  const int64_t common = std::gcd(w.stride, w.dilation);
  const int64_t tap_step = w.stride / common;
  const int64_t dilation = w.dilation / common;
  std::vector<GradientPhase> phases;
  for (int64_t first = 0; first < std::min(w.stride, w.input); ++first) {
    int64_t tap = 0;
    while (tap < w.size && (first + w.before - tap * w.dilation) % w.stride != 0) ++tap;
    const int64_t taps = tap < w.size ? ceil_div(w.size - tap, tap_step) : 0;
    GradientPhase phase;
    phase.first = first;
    phase.step = w.stride;
    phase.tap = tap + (taps - 1) * tap_step;
    phase.tap_step = -tap_step;
    phase.window = {.input = w.output,
                    .output = ceil_div(w.input - first, w.stride),
                    .size = taps,
                    .stride = 1,
                    .dilation = dilation,
                    .before = 0,
                    .after = 0};
    if (taps > 0) {
      const int64_t under_first = (first + w.before - tap * w.dilation) / w.stride;
      phase.window.before = (taps - 1) * dilation - under_first;
    }
    phases.push_back(phase);
  }
  return phases;
}

}  // namespace plimsoll::backend::cpu
