// conv2d, conv3d and their gradients, output position by output position, sums in double.

#include <algorithm>

#include "backend/reference/image_loops.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/image/conv.h"

namespace plimsoll::backend::reference {
namespace {

using ops::ConvGeometry;

ConvGeometry geometry_of(const Problem& problem) {
  return ops::conv_geometry(problem.node.op->name(), problem.types());
}

// sums[filters] += the pixel's channels times one kernel position.
template <typename T>
void add_tap(const ConvGeometry& g, const T* x, const T* w, double* sums) {
  for (int64_t c = 0; c < g.channels; ++c) {
    const auto value = static_cast<double>(x[c]);
    const int64_t first = c / g.group_channels() * g.group_filters();
    const T* row = w + c % g.group_channels() * g.filters + first;
    double* sum = sums + first;
    for (int64_t f = 0; f < g.group_filters(); ++f) sum[f] += value * static_cast<double>(row[f]);
  }
}

std::unique_ptr<Kernel> make_conv(const Problem& problem) {
  const ConvGeometry g = geometry_of(problem);
  const bool relu = problem.attributes.get_string("activation", "linear") == "relu";
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([g, relu](const KernelCall& call) {
      auto* sums = reinterpret_cast<double*>(call.scratch);
      const T* w = data_of<T>(call.inputs[1]);
      const T* bias = call.inputs.size() > 2 ? data_of<T>(call.inputs[2]) : nullptr;
      const int64_t tap_size = g.group_channels() * g.filters;
      for_each_output(g.window, call.inputs[0].dims[0], [&](int64_t n, const Place& at) {
        for (int64_t f = 0; f < g.filters; ++f) {
          sums[f] = bias == nullptr ? 0.0 : static_cast<double>(bias[f]);
        }
        for_each_tap(g.window, at, [&](int64_t tap, const Place& under) {
          add_tap(g, voxel<T>(call.inputs[0], n, under), w + tap * tap_size, sums);
        });
        T* y = voxel<T>(call.outputs[0], n, at);
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

// sums[channels] += what one output position gives through one kernel position.
template <typename T>
void add_back(const ConvGeometry& g, const T* dy, const T* tap, double* sums) {
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

std::unique_ptr<Kernel> make_grad_input(const Problem& problem) {
  const ConvGeometry g = geometry_of(problem);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([g](const KernelCall& call) {
      auto* sums = reinterpret_cast<double*>(call.scratch);
      const T* w = data_of<T>(call.inputs[1]);
      const int64_t tap_size = g.group_channels() * g.filters;
      for_each_input(g.window, call.inputs[0].dims[0], [&](int64_t n, const Place& at) {
        std::fill(sums, sums + g.channels, 0.0);
        for_each_reaching(g.window, at, [&](int64_t tap, const Place& output) {
          add_back(g, voxel<T>(call.inputs[0], n, output), w + tap * tap_size, sums);
        });
        T* dx = voxel<T>(call.outputs[0], n, at);
        for (int64_t c = 0; c < g.channels; ++c) dx[c] = static_cast<T>(sums[c]);
      });
    });
  });
}

Bytes channel_scratch(const Problem& problem) {
  return Bytes(geometry_of(problem).channels * int64_t{sizeof(double)});
}

// sums += outer product of a pixel's channels and the gradient, for one kernel position.
template <typename T>
void add_outer(const ConvGeometry& g, const T* x, const T* dy, double* sums) {
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
  const ConvGeometry g = geometry_of(problem);
  const bool use_bias = problem.outputs.size() > 1;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([g, use_bias](const KernelCall& call) {
      auto* sums = reinterpret_cast<double*>(call.scratch);
      double* bias_sums = sums + g.kernel_elements();
      std::fill(sums, bias_sums + (use_bias ? g.filters : 0), 0.0);
      const int64_t tap_size = g.group_channels() * g.filters;
      for_each_output(g.window, call.inputs[0].dims[0], [&](int64_t n, const Place& at) {
        const T* dy = voxel<T>(call.inputs[1], n, at);
        for_each_tap(g.window, at, [&](int64_t tap, const Place& under) {
          add_outer(g, voxel<T>(call.inputs[0], n, under), dy, sums + tap * tap_size);
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
  const ConvGeometry g = geometry_of(problem);
  const int64_t bias = problem.outputs.size() > 1 ? g.filters : 0;
  return Bytes((g.kernel_elements() + bias) * int64_t{sizeof(double)});
}

constexpr KernelEntry kEntries[] = {
    {"conv2d", make_conv, filter_scratch, false},
    {"conv2d_grad_input", make_grad_input, channel_scratch, false},
    {"conv2d_grad_kernel", make_grad_kernel, kernel_scratch, false},
    {"conv3d", make_conv, filter_scratch, false},
    {"conv3d_grad_input", make_grad_input, channel_scratch, false},
    {"conv3d_grad_kernel", make_grad_kernel, kernel_scratch, false},
};

}  // namespace

std::span<const KernelEntry> conv_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
