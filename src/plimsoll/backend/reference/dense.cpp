// dense and its gradients; any range of the units, sums in double.

#include <algorithm>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

constexpr std::string_view kUnits = "units";

int64_t last_extent(const graph::ValueType& type) {
  return type.shape[type.shape.rank() - 1].count;
}

// Elements between rows of the weights; a packed weight is the plain array.
int64_t weight_stride(const Operand& w, bool packed, int64_t units) {
  return packed ? units : w.strides[0];
}

std::unique_ptr<Kernel> make_dense(const Problem& problem) {
  const bool relu = problem.attributes.get_string("activation", "linear") == "relu";
  const bool packed = problem.inputs[1].dtype == DType::kOpaque;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([relu, packed](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const int64_t inner = row_length(x);
      const int64_t units = row_length(y);
      const int64_t stride = weight_stride(call.inputs[1], packed, units);
      const T* w = data_of<T>(call.inputs[1]);
      const T* bias = call.inputs.size() > 2 ? data_of<T>(call.inputs[2]) : nullptr;
      auto* sums = reinterpret_cast<double*>(call.scratch);
      for_each_index<2>(row_dims(x), {x.strides, y.strides}, [&](const auto& at, int64_t) {
        const T* in = data_of<T>(x) + at[0];
        T* out = data_of<T>(y) + at[1];
        for (int64_t u = 0; u < units; ++u) {
          sums[u] = bias == nullptr ? 0.0 : static_cast<double>(bias[u]);
        }
        for (int64_t k = 0; k < inner; ++k) {
          const auto value = static_cast<double>(in[k]);
          const T* row = w + k * stride;
          for (int64_t u = 0; u < units; ++u) sums[u] += value * static_cast<double>(row[u]);
        }
        for (int64_t u = 0; u < units; ++u) {
          const T value = static_cast<T>(sums[u]);
          out[u] = relu && value < T(0) ? T(0) : value;
        }
      });
    });
  });
}

Bytes units_scratch(const Problem& problem) {
  return Bytes(problem.extent(kUnits, last_extent(problem.outputs[0])) * int64_t{sizeof(double)});
}

std::unique_ptr<Kernel> make_grad_input(const Problem& problem) {
  const bool packed = problem.inputs[1].dtype == DType::kOpaque;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([packed](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& dx = call.outputs[0];
      const int64_t inner = row_length(dx);
      const int64_t units = row_length(dy);
      const int64_t stride = weight_stride(call.inputs[1], packed, units);
      const T* w = data_of<T>(call.inputs[1]);
      for_each_index<2>(row_dims(dy), {dy.strides, dx.strides}, [&](const auto& at, int64_t) {
        const T* in = data_of<T>(dy) + at[0];
        T* out = data_of<T>(dx) + at[1];
        for (int64_t k = 0; k < inner; ++k) {
          const T* row = w + k * stride;
          double sum = 0;
          for (int64_t u = 0; u < units; ++u) {
            sum += static_cast<double>(in[u]) * static_cast<double>(row[u]);
          }
          fold(out[k], sum, call.first);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_grad_kernel(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& dy = call.inputs[1];
      const int64_t inner = row_length(x);
      const int64_t units = row_length(dy);
      const bool use_bias = call.outputs.size() > 1;
      auto* sums = reinterpret_cast<double*>(call.scratch);
      double* bias_sums = sums + inner * units;
      std::fill(sums, bias_sums + (use_bias ? units : 0), 0.0);
      for_each_index<2>(row_dims(x), {x.strides, dy.strides}, [&](const auto& at, int64_t) {
        const T* in = data_of<T>(x) + at[0];
        const T* gradient = data_of<T>(dy) + at[1];
        for (int64_t k = 0; k < inner; ++k) {
          const auto value = static_cast<double>(in[k]);
          double* row = sums + k * units;
          for (int64_t u = 0; u < units; ++u) row[u] += value * static_cast<double>(gradient[u]);
        }
        for (int64_t u = 0; use_bias && u < units; ++u) {
          bias_sums[u] += static_cast<double>(gradient[u]);
        }
      });
      if (T* dw = data_of<T>(call.outputs[0])) {
        for (int64_t i = 0; i < inner * units; ++i) {
          fold(dw[i / units * call.outputs[0].strides[0] + i % units], sums[i], call.first);
        }
      }
      T* db = use_bias ? data_of<T>(call.outputs[1]) : nullptr;
      for (int64_t u = 0; db != nullptr && u < units; ++u) fold(db[u], bias_sums[u], call.first);
    });
  });
}

Bytes kernel_scratch(const Problem& problem) {
  const int64_t units = problem.extent(kUnits, last_extent(problem.inputs[1]));
  const int64_t rows = last_extent(problem.inputs[0]) + (problem.outputs.size() > 1 ? 1 : 0);
  return Bytes(rows * units * int64_t{sizeof(double)});
}

constexpr KernelEntry kEntries[] = {
    {"dense", make_dense, units_scratch, false},
    {"dense_grad_input", make_grad_input, nullptr, false},
    {"dense_grad_kernel", make_grad_kernel, kernel_scratch, false},
};

}  // namespace

std::span<const KernelEntry> dense_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
