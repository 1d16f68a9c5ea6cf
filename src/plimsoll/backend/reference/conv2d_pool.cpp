// conv2d_pool and its gradients, window by window, sums in double; what has no gradient is skipped.

#include <algorithm>

#include "backend/reference/image_loops.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/image/conv2d_pool.h"

namespace plimsoll::backend::reference {
namespace {

using ops::Conv2dPoolGeometry;
using ops::Window;

Conv2dPoolGeometry geometry_of(const Problem& problem) {
  return ops::conv2d_pool_geometry(problem.node.op->name(), problem.types());
}

// body(sample, row, column) for each window.
template <typename Body>
void for_each_window(const Conv2dPoolGeometry& g, int64_t samples, Body body) {
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t i = 0; i < g.rows(); ++i) {
      for (int64_t j = 0; j < g.columns(); ++j) body(n, i, j);
    }
  }
}

// body(kernel position, input row, input column) under position `tap` of a window.
template <typename Body>
void for_each_input(const Conv2dPoolGeometry& g, int64_t i, int64_t j, int64_t tap, Body body) {
  const Place output = {0, i * g.pool_rows + tap / g.pool_columns,
                        j * g.pool_columns + tap % g.pool_columns};
  for_each_tap(g.conv.window, output, [&](int64_t position, const Place& under) {
    body(position, under.row, under.column);
  });
}

// The first maximum so far; a NaN beats every number.
template <typename T>
bool beats(T challenger, T best) {
  return challenger > best || (challenger != challenger && best == best);
}

// The winner of one window and filter, while its positions are visited.
struct Best {
  double value;
  int64_t tap;
};

template <typename T>
void convolve(const Conv2dPoolGeometry& g, const KernelCall& call, int64_t n, int64_t i, int64_t j,
              int64_t tap, double* sums) {
  const int64_t filters = g.conv.filters;
  const T* bias = call.inputs.size() > 2 ? data_of<T>(call.inputs[2]) : nullptr;
  for (int64_t f = 0; f < filters; ++f) {
    sums[f] = bias == nullptr ? 0.0 : static_cast<double>(bias[f]);
  }
  for_each_input(g, i, j, tap, [&](int64_t position, int64_t row, int64_t column) {
    const T* x = pixel<T>(call.inputs[0], n, row, column);
    const T* w = data_of<T>(call.inputs[1]) + position * g.conv.channels * filters;
    for (int64_t c = 0; c < g.conv.channels; ++c) {
      const auto value = static_cast<double>(x[c]);
      for (int64_t f = 0; f < filters; ++f) {
        sums[f] += value * static_cast<double>(w[c * filters + f]);
      }
    }
  });
}

std::unique_ptr<Kernel> make_forward(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([g = geometry_of(problem)](const KernelCall& call) {
      const int64_t filters = g.conv.filters;
      auto* sums = reinterpret_cast<double*>(call.scratch);
      auto* best = reinterpret_cast<Best*>(sums + filters);
      for_each_window(g, call.inputs[0].dims[0], [&](int64_t n, int64_t i, int64_t j) {
        for (int64_t tap = 0; tap < g.taps(); ++tap) {
          convolve<T>(g, call, n, i, j, tap, sums);
          for (int64_t f = 0; f < filters; ++f) {
            const T sum = static_cast<T>(sums[f]);
            const T value = g.relu && sum < T(0) ? T(0) : sum;
            if (tap == 0 || beats(value, static_cast<T>(best[f].value))) {
              best[f] = {static_cast<double>(value), tap};
            }
          }
        }
        if (call.outputs[0].data != nullptr) {
          T* y = pixel<T>(call.outputs[0], n, i, j);
          for (int64_t f = 0; f < filters; ++f) y[f] = static_cast<T>(best[f].value);
        }
        if (call.outputs[1].data != nullptr) {
          auto* winners = pixel<uint8_t>(call.outputs[1], n, i, j);
          for (int64_t f = 0; f < filters; ++f) {
            const bool passes = !g.relu || best[f].value > 0.0;
            winners[f] = static_cast<uint8_t>(passes ? best[f].tap : g.taps());
          }
        }
      });
    });
  });
}

Bytes forward_scratch(const Problem& problem) {
  return Bytes(geometry_of(problem).conv.filters *
               static_cast<int64_t>(sizeof(double) + sizeof(Best)));
}

// Adds what one window gives to an input pixel at one kernel position.
template <typename T>
void add_window(const Conv2dPoolGeometry& g, const KernelCall& call, int64_t n, int64_t out_row,
                int64_t out_column, const T* w, double* sums) {
  const int64_t i = out_row / g.pool_rows;
  const int64_t j = out_column / g.pool_columns;
  if (i >= g.rows() || j >= g.columns()) return;
  const int64_t tap = out_row % g.pool_rows * g.pool_columns + out_column % g.pool_columns;
  const T* dy = pixel<T>(call.inputs[0], n, i, j);
  const auto* winners = pixel<uint8_t>(call.inputs[1], n, i, j);
  for (int64_t f = 0; f < g.conv.filters; ++f) {
    if (winners[f] != tap) continue;
    for (int64_t c = 0; c < g.conv.channels; ++c) {
      sums[c] += static_cast<double>(dy[f]) * static_cast<double>(w[c * g.conv.filters + f]);
    }
  }
}

std::unique_ptr<Kernel> make_grad_input(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([g = geometry_of(problem)](const KernelCall& call) {
      auto* sums = reinterpret_cast<double*>(call.scratch);
      const T* w = data_of<T>(call.inputs[2]);
      const Window& rows = g.conv.rows();
      const Window& columns = g.conv.columns();
      const auto compute = [&](int64_t n, int64_t row, int64_t column) {
        std::fill(sums, sums + g.conv.channels, 0.0);
        for (int64_t r = 0; r < rows.size; ++r) {
          const int64_t out_row = output_of(rows, row, r);
          if (out_row < 0) continue;
          for (int64_t c = 0; c < columns.size; ++c) {
            const int64_t out_column = output_of(columns, column, c);
            if (out_column < 0) continue;
            add_window<T>(g, call, n, out_row, out_column,
                          w + (r * columns.size + c) * g.conv.channels * g.conv.filters, sums);
          }
        }
        T* dx = pixel<T>(call.outputs[0], n, row, column);
        for (int64_t c = 0; c < g.conv.channels; ++c) dx[c] = static_cast<T>(sums[c]);
      };
      for (int64_t n = 0; n < call.inputs[0].dims[0]; ++n) {
        for (int64_t row = 0; row < rows.input; ++row) {
          for (int64_t column = 0; column < columns.input; ++column) compute(n, row, column);
        }
      }
    });
  });
}

Bytes channel_scratch(const Problem& problem) {
  return Bytes(geometry_of(problem).conv.channels * int64_t{sizeof(double)});
}

std::unique_ptr<Kernel> make_grad_kernel(const Problem& problem) {
  const bool use_bias = problem.outputs.size() > 1;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([g = geometry_of(problem), use_bias](const KernelCall& call) {
      const int64_t filters = g.conv.filters;
      const int64_t elements = g.conv.kernel_elements();
      auto* sums = reinterpret_cast<double*>(call.scratch);
      double* bias_sums = sums + elements;
      std::fill(sums, bias_sums + (use_bias ? filters : 0), 0.0);
      for_each_window(g, call.inputs[0].dims[0], [&](int64_t n, int64_t i, int64_t j) {
        const T* dy = pixel<T>(call.inputs[1], n, i, j);
        const auto* winners = pixel<uint8_t>(call.inputs[2], n, i, j);
        for (int64_t f = 0; f < filters; ++f) {
          if (winners[f] >= g.taps()) continue;
          const auto d = static_cast<double>(dy[f]);
          if (use_bias) bias_sums[f] += d;
          for_each_input(g, i, j, winners[f], [&](int64_t position, int64_t row, int64_t column) {
            const T* x = pixel<T>(call.inputs[0], n, row, column);
            double* to = sums + position * g.conv.channels * filters + f;
            for (int64_t c = 0; c < g.conv.channels; ++c) {
              to[c * filters] += static_cast<double>(x[c]) * d;
            }
          });
        }
      });
      T* dw = data_of<T>(call.outputs[0]);
      for (int64_t e = 0; dw != nullptr && e < elements; ++e) fold(dw[e], sums[e], call.first);
      T* db = use_bias ? data_of<T>(call.outputs[1]) : nullptr;
      for (int64_t f = 0; db != nullptr && f < filters; ++f) {
        fold(db[f], bias_sums[f], call.first);
      }
    });
  });
}

Bytes kernel_scratch(const Problem& problem) {
  const Conv2dPoolGeometry g = geometry_of(problem);
  const int64_t bias = problem.outputs.size() > 1 ? g.conv.filters : 0;
  return Bytes((g.conv.kernel_elements() + bias) * int64_t{sizeof(double)});
}

constexpr KernelEntry kEntries[] = {
    {"conv2d_pool", make_forward, forward_scratch, false},
    {"conv2d_pool_grad_input", make_grad_input, channel_scratch, false},
    {"conv2d_pool_grad_kernel", make_grad_kernel, kernel_scratch, false},
};

}  // namespace

std::span<const KernelEntry> conv2d_pool_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
