// Poolings over windows and over whole images, and their gradients.

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/image/pool.h"

namespace plimsoll::backend::reference {
namespace {

using ops::Window;
using ops::Windows;

int64_t image_offset(const Operand& image, int64_t sample, int64_t row, int64_t column) {
  return sample * image.strides[0] + row * image.strides[1] + column * image.strides[2];
}

Windows forward_window(const Problem& problem) {
  const Shape& x = problem.inputs[0].shape;
  return ops::pool2d_window(problem.attributes, x[1].count, x[2].count);
}

Windows backward_window(const Problem& problem) {
  const std::vector<int64_t>& shape = problem.attributes.get_ints("input_shape");
  return ops::pool2d_window(problem.attributes, shape[0], shape[1]);
}

// The taps of an output position that lie inside of the input: [first, last).
struct Taps {
  int64_t first = 0;
  int64_t last = 0;
};
Taps taps_inside(const Window& window, int64_t output) {
  const int64_t start = window.position(output, 0);
  return {std::max<int64_t>(-start, 0), std::min(window.size, window.input - start)};
}

template <typename Body>
void for_each_output(const Windows& window, int64_t samples, Body body) {
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t i = 0; i < window[0].output; ++i) {
      for (int64_t j = 0; j < window[1].output; ++j) body(n, i, j);
    }
  }
}

// body(tap in row-major order of the window, offset of the input pixel).
template <typename Body>
void for_each_tap(const Windows& window, const Operand& x, int64_t n, int64_t i, int64_t j,
                  Body body) {
  const Taps rows = taps_inside(window[0], i);
  const Taps columns = taps_inside(window[1], j);
  for (int64_t r = rows.first; r < rows.last; ++r) {
    for (int64_t c = columns.first; c < columns.last; ++c) {
      body(r * window[1].size + c,
           image_offset(x, n, window[0].position(i, r), window[1].position(j, c)));
    }
  }
}

// The first maximum so far; a NaN beats every number.
template <typename T>
bool beats(T challenger, T best) {
  return challenger > best || (challenger != challenger && best == best);
}

template <typename T, typename W>
std::unique_ptr<Kernel> max_pool(const Windows& window) {
  return kernel_of([window](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    const Operand& winners = call.outputs[1];
    const int64_t channels = x.dims[3];
    for_each_output(window, x.dims[0], [&](int64_t n, int64_t i, int64_t j) {
      for (int64_t c = 0; c < channels; ++c) {
        T best = T(0);
        int64_t winner = -1;
        for_each_tap(window, x, n, i, j, [&](int64_t tap, int64_t offset) {
          const T value = data_of<T>(x)[offset + c];
          if (winner >= 0 && !beats(value, best)) return;
          best = value;
          winner = tap;
        });
        if (y.data != nullptr) data_of<T>(y)[image_offset(y, n, i, j) + c] = best;
        if (winners.data != nullptr) {
          data_of<W>(winners)[image_offset(winners, n, i, j) + c] = static_cast<W>(winner);
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_max_pool(const Problem& problem) {
  const Windows window = forward_window(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem.outputs[1].dtype == DType::kInt32) return max_pool<T, int32_t>(window);
    return max_pool<T, uint8_t>(window);
  });
}

template <typename T>
void clear(const Operand& y) {
  for_each_run<1>(y.dims, {y.strides}, [&](const auto& at, int64_t, int64_t count) {
    std::fill_n(data_of<T>(y) + at[0], count, T(0));
  });
}

template <typename T, typename W>
std::unique_ptr<Kernel> max_pool_grad(const Windows& window) {
  return kernel_of([window](const KernelCall& call) {
    const Operand& dy = call.inputs[0];
    const Operand& winners = call.inputs[1];
    const Operand& dx = call.outputs[0];
    clear<T>(dx);
    for_each_output(window, dy.dims[0], [&](int64_t n, int64_t i, int64_t j) {
      const T* in = data_of<T>(dy) + image_offset(dy, n, i, j);
      const W* winner = data_of<W>(winners) + image_offset(winners, n, i, j);
      for (int64_t c = 0; c < dy.dims[3]; ++c) {
        const auto tap = static_cast<int64_t>(winner[c]);
        const int64_t row = window[0].position(i, tap / window[1].size);
        const int64_t column = window[1].position(j, tap % window[1].size);
        data_of<T>(dx)[image_offset(dx, n, row, column) + c] += in[c];
      }
    });
  });
}

std::unique_ptr<Kernel> make_max_pool_grad(const Problem& problem) {
  const Windows window = backward_window(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem.inputs[1].dtype == DType::kInt32) return max_pool_grad<T, int32_t>(window);
    return max_pool_grad<T, uint8_t>(window);
  });
}

int64_t tap_count(const Windows& window, int64_t i, int64_t j) {
  const Taps rows = taps_inside(window[0], i);
  const Taps columns = taps_inside(window[1], j);
  return (rows.last - rows.first) * (columns.last - columns.first);
}

std::unique_ptr<Kernel> make_avg_pool(const Problem& problem) {
  const Windows window = forward_window(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([window](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for_each_output(window, x.dims[0], [&](int64_t n, int64_t i, int64_t j) {
        const auto count = static_cast<double>(tap_count(window, i, j));
        for (int64_t c = 0; c < x.dims[3]; ++c) {
          double sum = 0;
          for_each_tap(window, x, n, i, j, [&](int64_t, int64_t offset) {
            sum += static_cast<double>(data_of<T>(x)[offset + c]);
          });
          data_of<T>(y)[image_offset(y, n, i, j) + c] = static_cast<T>(sum / count);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_avg_pool_grad(const Problem& problem) {
  const Windows window = backward_window(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([window](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& dx = call.outputs[0];
      clear<T>(dx);
      for_each_output(window, dy.dims[0], [&](int64_t n, int64_t i, int64_t j) {
        const T* in = data_of<T>(dy) + image_offset(dy, n, i, j);
        const T count = static_cast<T>(tap_count(window, i, j));
        for_each_tap(window, dx, n, i, j, [&](int64_t, int64_t offset) {
          for (int64_t c = 0; c < dy.dims[3]; ++c) data_of<T>(dx)[offset + c] += in[c] / count;
        });
      });
    });
  });
}

// Where the pooled channels of a sample lie, with kept dimensions or without.
int64_t pooled_offset(const Operand& y, int64_t sample) { return sample * y.strides[0]; }

template <typename T, typename Body>
void for_each_position(const Operand& x, int64_t sample, Body body) {
  for (int64_t i = 0; i < x.dims[1]; ++i) {
    for (int64_t j = 0; j < x.dims[2]; ++j) {
      body(i * x.dims[2] + j, data_of<T>(x) + image_offset(x, sample, i, j));
    }
  }
}

std::unique_ptr<Kernel> make_global_average(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const auto count = static_cast<double>(x.dims[1] * x.dims[2]);
      for (int64_t n = 0; n < x.dims[0]; ++n) {
        T* y = data_of<T>(call.outputs[0]) + pooled_offset(call.outputs[0], n);
        for (int64_t c = 0; c < x.dims[3]; ++c) {
          double sum = 0;
          for_each_position<T>(x, n,
                               [&](int64_t, const T* at) { sum += static_cast<double>(at[c]); });
          y[c] = static_cast<T>(sum / count);
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_global_average_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& dx = call.outputs[0];
      const T count = static_cast<T>(dx.dims[1] * dx.dims[2]);
      for (int64_t n = 0; n < dx.dims[0]; ++n) {
        const T* dy = data_of<T>(call.inputs[0]) + pooled_offset(call.inputs[0], n);
        for_each_position<T>(dx, n, [&](int64_t, T* at) {
          for (int64_t c = 0; c < dx.dims[3]; ++c) at[c] = dy[c] / count;
        });
      }
    });
  });
}

// The bits of one sample that say which positions are maxima (ops/image/global_pool2d.cpp).
uint8_t* winner_bits(const Operand& winners, int64_t sample) {
  return data_of<uint8_t>(winners) + sample * winners.strides[0];
}

// Channels of which the maxima are found together.
constexpr int64_t kMaxima = 64;

// best[c]: the maximum of channel begin + c.
template <typename T>
void find_maxima(const Operand& x, int64_t sample, int64_t begin, std::span<T> best) {
  for_each_position<T>(x, sample, [&](int64_t position, const T* at) {
    for (size_t c = 0; c < best.size(); ++c) {
      const T value = at[begin + static_cast<int64_t>(c)];
      if (position == 0 || beats(value, best[c])) best[c] = value;
    }
  });
}

template <typename T>
void set_winners(const Operand& x, int64_t sample, int64_t begin, std::span<const T> best,
                 const Operand& winners) {
  uint8_t* bits = winner_bits(winners, sample) + begin;
  for (int64_t byte = 0; byte < winners.dims[1]; ++byte) {
    std::fill_n(bits + byte * winners.strides[1], best.size(), uint8_t{0});
  }
  for_each_position<T>(x, sample, [&](int64_t position, const T* at) {
    uint8_t* row = bits + position / 8 * winners.strides[1];
    const auto bit = static_cast<uint8_t>(1U << (position % 8));
    for (size_t c = 0; c < best.size(); ++c) {
      if (at[begin + static_cast<int64_t>(c)] == best[c]) row[c] |= bit;
    }
  });
}

std::unique_ptr<Kernel> make_global_max(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const Operand& winners = call.outputs[1];
      std::array<T, kMaxima> maxima;
      for (int64_t n = 0; n < x.dims[0]; ++n) {
        for (int64_t c = 0; c < x.dims[3]; c += kMaxima) {
          const int64_t count = std::min(kMaxima, x.dims[3] - c);
          const std::span<T> best(maxima.data(), static_cast<size_t>(count));
          find_maxima<T>(x, n, c, best);
          if (y.data != nullptr) {
            std::ranges::copy(best, data_of<T>(y) + pooled_offset(y, n) + c);
          }
          if (winners.data != nullptr) set_winners<T>(x, n, c, best, winners);
        }
      }
    });
  });
}

// Where no position is equal to the maximum it is NaN, and so is the gradient: 0 times 1 / 0.
std::unique_ptr<Kernel> make_global_max_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& winners = call.inputs[1];
      const Operand& dx = call.outputs[0];
      std::array<T, kMaxima> shares;
      for (int64_t n = 0; n < dx.dims[0]; ++n) {
        const T* dy = data_of<T>(call.inputs[0]) + pooled_offset(call.inputs[0], n);
        const uint8_t* bits = winner_bits(winners, n);
        for (int64_t begin = 0; begin < dx.dims[3]; begin += kMaxima) {
          const int64_t end = std::min(begin + kMaxima, dx.dims[3]);
          for (int64_t c = begin; c < end; ++c) {
            int count = 0;
            for (int64_t byte = 0; byte < winners.dims[1]; ++byte) {
              count += std::popcount(bits[byte * winners.strides[1] + c]);
            }
            shares[static_cast<size_t>(c - begin)] = T(1) / static_cast<T>(count);
          }
          for_each_position<T>(dx, n, [&](int64_t position, T* at) {
            const uint8_t* row = bits + position / 8 * winners.strides[1];
            for (int64_t c = begin; c < end; ++c) {
              const auto is_maximum = static_cast<T>(row[c] >> (position % 8) & 1);
              at[c] = dy[c] * (is_maximum * shares[static_cast<size_t>(c - begin)]);
            }
          });
        }
      }
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"avg_pool2d", make_avg_pool},
    {"avg_pool2d_grad", make_avg_pool_grad},
    {"global_average_pool2d", make_global_average},
    {"global_average_pool2d_grad", make_global_average_grad},
    {"global_max_pool2d", make_global_max},
    {"global_max_pool2d_grad", make_global_max_grad},
    {"max_pool2d", make_max_pool},
    {"max_pool2d_grad", make_max_pool_grad},
};

}  // namespace

std::span<const KernelEntry> pool_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
