// Convolutions as products of patches: what a patch holds, and which points of a kernel each
// position of a source meets.

#include "backend/cpu/conv/patches.h"

#include <gtest/gtest.h>

#include <numeric>

namespace plimsoll::backend_test {
namespace {

using backend::cpu::GradientPhase;
using backend::cpu::Patches;

ops::Window window(int64_t input, int64_t size, int64_t stride, int64_t dilation, int64_t before,
                   int64_t after) {
  ops::Window w{.input = input,
                .output = 0,
                .size = size,
                .stride = stride,
                .dilation = dilation,
                .before = before,
                .after = after};
  w.output = w.fitting_output();
  return w;
}

TEST(Patches, HoldWhatWindowsOverVolumesDo) {
  const Patches patches = {.rows = window(4, 2, 1, 1, 1, 0),
                           .columns = window(3, 2, 2, 1, 0, 1),
                           .channels = 2,
                           .count = 2,
                           .slabs = window(5, 3, 2, 2, 1, 2)};
  constexpr int64_t kVolumes = 2;
  std::vector<float> volumes(kVolumes * 5 * 4 * 3 * 2);
  std::iota(volumes.begin(), volumes.end(), 1.0f);
  const int64_t all = kVolumes * patches.positions();
  std::vector<float> held(static_cast<size_t>(all * patches.numbers()), -1.0f);
  patches.copy(volumes.data(), 0, 7, held.data());
  patches.copy(volumes.data(), 7, all, held.data() + 7 * patches.numbers());
  size_t i = 0;
  for (int64_t p = 0; p < all; ++p) {
    const int64_t volume = p / patches.positions();
    const int64_t column = p % patches.columns.output;
    const int64_t row = p / patches.columns.output % patches.rows.output;
    const int64_t slab = p % patches.positions() / (patches.columns.output * patches.rows.output);
    for (int64_t tap = 0; tap < 3 * 2 * 2; ++tap) {
      const int64_t d = slab * 2 + tap / 4 * 2 - 1;
      const int64_t r = row + tap / 2 % 2 - 1;
      const int64_t s = column * 2 + tap % 2;
      const bool inside = d >= 0 && d < 5 && r >= 0 && r < 4 && s >= 0 && s < 3;
      for (int64_t c = 0; c < 2; ++c, ++i) {
        const int64_t at = (((volume * 5 + d) * 4 + r) * 3 + s) * 2 + c;
        ASSERT_EQ(held[i], inside ? volumes[static_cast<size_t>(at)] : 0.0f) << p << ": " << tap;
      }
    }
  }
  EXPECT_EQ(i, held.size());
}

TEST(Patches, HoldWhatTheirWindowsDo) {
  const Patches patches = {.rows = window(6, 3, 2, 1, 1, 0),
                           .columns = window(7, 2, 1, 3, 2, 1),
                           .channels = 5,
                           .count = 3};
  constexpr int64_t kImages = 2;
  std::vector<float> images(kImages * 6 * 7 * 5);
  std::iota(images.begin(), images.end(), 1.0f);
  const int64_t all = kImages * patches.positions();
  std::vector<float> held(static_cast<size_t>(all * patches.numbers()), -1.0f);
  // In two parts, as threads do.
  patches.copy(images.data() + 1, 0, 5, held.data());
  patches.copy(images.data() + 1, 5, all, held.data() + 5 * patches.numbers());
  size_t i = 0;
  for (int64_t p = 0; p < all; ++p) {
    const int64_t image = p / patches.positions();
    const int64_t row = p % patches.positions() / patches.columns.output;
    const int64_t column = p % patches.columns.output;
    for (int64_t a = 0; a < 3; ++a) {
      for (int64_t b = 0; b < 2; ++b) {
        for (int64_t c = 1; c < 4; ++c, ++i) {
          const int64_t r = row * 2 + a - 1, s = column + b * 3 - 2;
          const bool inside = r >= 0 && r < 6 && s >= 0 && s < 7;
          const float expected =
              inside ? images[static_cast<size_t>(((image * 6 + r) * 7 + s) * 5 + c)] : 0.0f;
          ASSERT_EQ(held[i], expected) << p << ": " << a << ", " << b << ", " << c;
        }
      }
    }
  }
}

// Every pair of a position of the source and an output whose window holds it is met once, by the
// point of the kernel that lies there.
TEST(GradientPhases, MeetEachPointOnce) {
  for (int64_t input : {1, 2, 5, 9}) {
    for (int64_t size : {1, 2, 3, 5}) {
      for (int64_t stride : {1, 2, 3, 4}) {
        for (int64_t dilation : {1, 2, 3}) {
          for (int64_t before : {-1, 0, 1, 3}) {
            ops::Window w = window(input, size, stride, dilation, std::max<int64_t>(before, 0), 2);
            w.before = before;  // blocks of rows begin anywhere
            if (w.output < 1) continue;
            std::vector<int64_t> met(static_cast<size_t>(input * size), -1);
            std::vector<int> seen(static_cast<size_t>(input));
            for (const GradientPhase& phase : backend::cpu::gradient_phases(w)) {
              for (int64_t q = 0; q < phase.window.output; ++q) {
                const int64_t position = phase.first + q * phase.step;
                ASSERT_LT(position, input);
                ++seen[static_cast<size_t>(position)];
                for (int64_t j = 0; j < phase.window.size; ++j) {
                  const int64_t at = phase.window.position(q, j);
                  if (!phase.window.inside(at)) continue;
                  const int64_t tap = phase.tap + j * phase.tap_step;
                  ASSERT_EQ(w.position(at, tap), position);
                  met[static_cast<size_t>(position * size + tap)] = at;
                }
              }
            }
            for (int times : seen) ASSERT_EQ(times, 1);
            for (int64_t at = 0; at < w.output; ++at) {
              for (int64_t tap = 0; tap < size; ++tap) {
                const int64_t position = w.position(at, tap);
                if (!w.inside(position)) continue;
                ASSERT_EQ(met[static_cast<size_t>(position * size + tap)], at);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::backend_test
