// conv2d and its gradients, output position by output position, sums in double.

#include <algorithm>

#include "backend/reference/image_loops.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/image/conv2d.h"

namespace plimsoll::backend::reference {
namespace {

using ops::Conv2dGeometry;
using ops::Window;

Conv2dGeometry geometry_of(const Problem& problem) {
  return ops::conv2d_geometry(problem.node.op->name(), problem.types());
}

template <typename Body>
void for_each_output(const Conv2dGeometry& g, int64_t samples, Body body) {
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t i = 0; i < g.rows().output; ++i) {
      for (int64_t j = 0; j < g.columns().output; ++j) body(n, i, j);
    }
  }
}

// sums[filters] += the pixel's channels times one kernel position.
template <typename T>
void add_tap(const Conv2dGeometry& g, const T* x, const T* w, double* sums) {
  for (int64_t c = 0; c < g.channels; ++c) {
    const auto value = static_cast<double>(x[c]);
    const int64_t first = c / g.group_channels() * g.group_filters();
    const T* row = w + c % g.group_channels() * g.filters + first;
    double* sum = sums + first;
    for (int64_t f = 0; f < g.group_filters(); ++f) sum[f] += value * static_cast<double>(row[f]);
  }
}

std::unique_ptr<Kernel> make_conv2d(const Problem& problem) {
  const Conv2dGeometry g = geometry_of(problem);
  const bool relu = problem.attributes.get_string("activation", "linear") == "relu";
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([g, relu](const KernelCall& call) {
      auto* sums = reinterpret_cast<double*>(call.scratch);
      const T* w = data_of<T>(call.inputs[1]);
      const T* bias = call.inputs.size() > 2 ? data_of<T>(call.inputs[2]) : nullptr;
      const int64_t tap_size = g.group_channels() * g.filters;
      for_each_output(g, call.inputs[0].dims[0], [&](int64_t n, int64_t i, int64_t j) {
        for (int64_t f = 0; f < g.filters; ++f) {
          sums[f] = bias == nullptr ? 0.0 : static_cast<double>(bias[f]);
        }
        for_each_tap(g, i, j, [&](int64_t tap, int64_t row, int64_t column) {
          add_tap(g, pixel<T>(call.inputs[0], n, row, column), w + tap * tap_size, sums);
        });
        T* y = pixel<T>(call.outputs[0], n, i, j);
        for (int64_t f = 0; f < g.filters; ++f) {
          const T value = static_cast<T>(sums[f]);
          y[f] = relu && value < T(0) ? T(0) : value;
        }
      });
    });
  });
}

Bytes filter_scratch(const Problem& problem) {
  return Bytes(geometry_of(problem).filters * int64_t{sizeof(double)});
}

// One input pixel's gradient.
template <typename T>
void input_gradient(const Conv2dGeometry& g, const KernelCall& call, int64_t n, int64_t row,
                    int64_t column, double* sums) {
  std::fill(sums, sums + g.channels, 0.0);
  const T* w = data_of<T>(call.inputs[1]);
  for (int64_t i = 0; i < g.rows().size; ++i) {
    const int64_t out_row = output_of(g.rows(), row, i);
    if (out_row < 0) continue;
    for (int64_t j = 0; j < g.columns().size; ++j) {
      const int64_t out_column = output_of(g.columns(), column, j);
      if (out_column < 0) continue;
      const T* dy = pixel<T>(call.inputs[0], n, out_row, out_column);
      const T* tap = w + (i * g.columns().size + j) * g.group_channels() * g.filters;
      for (int64_t c = 0; c < g.channels; ++c) {
        const int64_t first = c / g.group_channels() * g.group_filters();
        const T* weights = tap + c % g.group_channels() * g.filters + first;
        double sum = 0;
        for (int64_t f = 0; f < g.group_filters(); ++f) {
          sum += static_cast<double>(dy[first + f]) * static_cast<double>(weights[f]);
        }
        sums[c] += sum;
      }
    }
  }
}

std::unique_ptr<Kernel> make_grad_input(const Problem& problem) {
  const Conv2dGeometry g = geometry_of(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([g](const KernelCall& call) {
      auto* sums = reinterpret_cast<double*>(call.scratch);
      for (int64_t n = 0; n < call.inputs[0].dims[0]; ++n) {
        for (int64_t row = 0; row < g.rows().input; ++row) {
          for (int64_t column = 0; column < g.columns().input; ++column) {
            input_gradient<T>(g, call, n, row, column, sums);
            T* dx = pixel<T>(call.outputs[0], n, row, column);
            for (int64_t c = 0; c < g.channels; ++c) dx[c] = static_cast<T>(sums[c]);
          }
        }
      }
    });
  });
}

Bytes channel_scratch(const Problem& problem) {
  return Bytes(geometry_of(problem).channels * int64_t{sizeof(double)});
}

// sums += outer product of a pixel's channels and the gradient, for one kernel position.
template <typename T>
void add_outer(const Conv2dGeometry& g, const T* x, const T* dy, double* sums) {
  for (int64_t c = 0; c < g.channels; ++c) {
    const auto value = static_cast<double>(x[c]);
    const int64_t first = c / g.group_channels() * g.group_filters();
    double* sum = sums + c % g.group_channels() * g.filters + first;
    for (int64_t f = 0; f < g.group_filters(); ++f) {
      sum[f] += value * static_cast<double>(dy[first + f]);
    }
  }
}

std::unique_ptr<Kernel> make_grad_kernel(const Problem& problem) {
  const Conv2dGeometry g = geometry_of(problem);
  const bool use_bias = problem.outputs.size() > 1;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([g, use_bias](const KernelCall& call) {
      auto* sums = reinterpret_cast<double*>(call.scratch);
      double* bias_sums = sums + g.kernel_elements();
      std::fill(sums, bias_sums + (use_bias ? g.filters : 0), 0.0);
      const int64_t tap_size = g.group_channels() * g.filters;
      for_each_output(g, call.inputs[0].dims[0], [&](int64_t n, int64_t i, int64_t j) {
        const T* dy = pixel<T>(call.inputs[1], n, i, j);
        for_each_tap(g, i, j, [&](int64_t tap, int64_t row, int64_t column) {
          add_outer(g, pixel<T>(call.inputs[0], n, row, column), dy, sums + tap * tap_size);
        });
        for (int64_t f = 0; use_bias && f < g.filters; ++f) {
          bias_sums[f] += static_cast<double>(dy[f]);
        }
      });
      T* dw = data_of<T>(call.outputs[0]);
      for (int64_t i = 0; dw != nullptr && i < g.kernel_elements(); ++i) {
        fold(dw[i], sums[i], call.first);
      }
      T* db = use_bias ? data_of<T>(call.outputs[1]) : nullptr;
      for (int64_t f = 0; db != nullptr && f < g.filters; ++f) {
        fold(db[f], bias_sums[f], call.first);
      }
    });
  });
}

Bytes kernel_scratch(const Problem& problem) {
  const Conv2dGeometry g = geometry_of(problem);
  const int64_t bias = problem.outputs.size() > 1 ? g.filters : 0;
  return Bytes((g.kernel_elements() + bias) * int64_t{sizeof(double)});
}

constexpr KernelEntry kEntries[] = {
    {"conv2d", make_conv2d, filter_scratch, false},
    {"conv2d_grad_input", make_grad_input, channel_scratch, false},
    {"conv2d_grad_kernel", make_grad_kernel, kernel_scratch, false},
};

}  // namespace

std::span<const KernelEntry> conv2d_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
