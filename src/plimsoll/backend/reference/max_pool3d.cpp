// max_pool3d and its gradient, some channels of an output at a time.

#include <algorithm>
#include <array>

#include "backend/reference/image_loops.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/image/pool.h"

namespace plimsoll::backend::reference {
namespace {

using ops::Windows;

Windows windows_over(const Problem& problem, const Shape& x) {
  return ops::pool_windows(problem.attributes, std::array{x[1].count, x[2].count, x[3].count});
}

// Channels of which the maxima are found together.
constexpr int64_t kTogether = 64;

// The maxima of some channels under one output. A NaN beats every number.
template <typename T>
class Maxima {
 public:
  explicit Maxima(int64_t count) : count_(count) {}

  void take(const T* x) {
    for (int64_t c = 0; c < count_; ++c) {
      const bool beats = first_ || x[c] > best_[at(c)] || (x[c] != x[c] && !is_nan(c));
      if (beats) best_[at(c)] = x[c];
    }
    first_ = false;
  }
  // Sets the bit where x is the maximum.
  void mark(const T* x, uint8_t bit, uint8_t* winners) const {
    for (int64_t c = 0; c < count_; ++c) {
      const bool wins = x[c] == best_[at(c)] || (x[c] != x[c] && is_nan(c));
      if (wins) winners[c] |= bit;
    }
  }
  void store(T* y) const { std::copy_n(best_.begin(), count_, y); }

 private:
  static size_t at(int64_t channel) { return static_cast<size_t>(channel); }
  bool is_nan(int64_t channel) const { return best_[at(channel)] != best_[at(channel)]; }

  int64_t count_;
  bool first_ = true;
  std::array<T, kTogether> best_{};
};

uint8_t bit_of(int64_t tap) { return static_cast<uint8_t>(1U << (tap % 8)); }

std::unique_ptr<Kernel> make_max_pool3d(const Problem& problem) {
  const Windows windows = windows_over(problem, problem.inputs[0].shape);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([windows](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const Operand& winners = call.outputs[1];
      const int64_t channels = x.dims[4];
      for_each_output(windows, x.dims[0], [&](int64_t n, const Place& at) {
        uint8_t* bits = winners.data == nullptr ? nullptr : voxel<uint8_t>(winners, n, at);
        if (bits != nullptr) std::fill_n(bits, winners.dims[4], uint8_t{0});
        for (int64_t c = 0; c < channels; c += kTogether) {
          Maxima<T> maxima(std::min(kTogether, channels - c));
          for_each_tap(windows, at, [&](int64_t, const Place& under) {
            maxima.take(voxel<T>(x, n, under) + c);
          });
          if (y.data != nullptr) maxima.store(voxel<T>(y, n, at) + c);
          if (bits == nullptr) continue;
          for_each_tap(windows, at, [&](int64_t tap, const Place& under) {
            maxima.mark(voxel<T>(x, n, under) + c, bit_of(tap), bits + tap / 8 * channels + c);
          });
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_max_pool3d_grad(const Problem& problem) {
  const Windows windows = windows_over(problem, problem.outputs[0].shape);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([windows](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& winners = call.inputs[1];
      const Operand& dx = call.outputs[0];
      const int64_t channels = dx.dims[4];
      for_each_run<1>(dx.dims, {dx.strides}, [&](const auto& at, int64_t, int64_t count) {
        std::fill_n(data_of<T>(dx) + at[0], count, T(0));
      });
      for_each_output(windows, dy.dims[0], [&](int64_t n, const Place& at) {
        const T* from = voxel<T>(dy, n, at);
        const uint8_t* bits = voxel<uint8_t>(winners, n, at);
        for_each_tap(windows, at, [&](int64_t tap, const Place& under) {
          const uint8_t* marks = bits + tap / 8 * channels;
          T* to = voxel<T>(dx, n, under);
          for (int64_t c = 0; c < channels; ++c) {
            if ((marks[c] & bit_of(tap)) != 0) to[c] += from[c];
          }
        });
      });
    });
  });
}

constexpr KernelEntry kEntries[] = {{"max_pool3d", make_max_pool3d},
                                    {"max_pool3d_grad", make_max_pool3d_grad}};

}  // namespace

std::span<const KernelEntry> max_pool3d_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
