// softmax, log_softmax and glu, and their gradients.

#include <algorithm>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

// A maximum that is NaN as soon as one of them is.
template <typename T>
T row_maximum(const T* x, int64_t count) {
  T best = x[0];
  for (int64_t i = 1; i < count; ++i) {
    if (x[i] > best || x[i] != x[i]) best = x[i];
  }
  return best;
}

// f(in, out, length) for each row of the last dimension.
template <typename T, typename F>
std::unique_ptr<Kernel> row_map(F f) {
  return kernel_of([f](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    for_each_index<2>(row_dims(x), {x.strides, y.strides}, [&](const auto& at, int64_t) {
      f(data_of<T>(x) + at[0], data_of<T>(y) + at[1], row_length(x));
    });
  });
}

// f(dy, y, dx, length)
template <typename T, typename F>
std::unique_ptr<Kernel> row_gradient(F f) {
  return kernel_of([f](const KernelCall& call) {
    const Operand& dy = call.inputs[0];
    const Operand& y = call.inputs[1];
    const Operand& dx = call.outputs[0];
    for_each_index<3>(
        row_dims(dy), {dy.strides, y.strides, dx.strides}, [&](const auto& at, int64_t) {
          f(data_of<T>(dy) + at[0], data_of<T>(y) + at[1], data_of<T>(dx) + at[2], row_length(dy));
        });
  });
}

std::unique_ptr<Kernel> make_softmax(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return row_map<T>([](const T* x, T* y, int64_t count) {
      const T most = row_maximum(x, count);
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) {
        y[i] = std::exp(x[i] - most);
        sum += static_cast<double>(y[i]);
      }
      for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(static_cast<double>(y[i]) / sum);
    });
  });
}

std::unique_ptr<Kernel> make_log_softmax(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return row_map<T>([](const T* x, T* y, int64_t count) {
      const T most = row_maximum(x, count);
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(std::exp(x[i] - most));
      const T shift = static_cast<T>(std::log(sum));
      for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - most) - shift;
    });
  });
}

std::unique_ptr<Kernel> make_softmax_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return row_gradient<T>([](const T* dy, const T* y, T* dx, int64_t count) {
      double dot = 0;
      for (int64_t i = 0; i < count; ++i) {
        dot += static_cast<double>(dy[i]) * static_cast<double>(y[i]);
      }
      for (int64_t i = 0; i < count; ++i) dx[i] = (dy[i] - static_cast<T>(dot)) * y[i];
    });
  });
}

std::unique_ptr<Kernel> make_log_softmax_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return row_gradient<T>([](const T* dy, const T* y, T* dx, int64_t count) {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(dy[i]);
      for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] - std::exp(y[i]) * static_cast<T>(sum);
    });
  });
}

// The axis that glu splits, counted from the front.
size_t glu_axis(const Problem& problem, size_t input) {
  const int64_t axis = problem.attributes.get_int("axis", -1);
  return static_cast<size_t>(axis < 0 ? axis + problem.inputs[input].shape.rank() : axis);
}

template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

std::unique_ptr<Kernel> make_glu(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([axis = glu_axis(problem, 0)](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const int64_t gate = y.dims[axis] * x.strides[axis];
      for_each_run<2>(y.dims, {x.strides, y.strides}, [&](const auto& at, int64_t, int64_t count) {
        const T* in = data_of<T>(x) + at[0];
        T* out = data_of<T>(y) + at[1];
        for (int64_t i = 0; i < count; ++i) out[i] = in[i] * sigmoid(in[i + gate]);
      });
    });
  });
}

std::unique_ptr<Kernel> make_glu_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([axis = glu_axis(problem, 1)](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& x = call.inputs[1];
      const Operand& dx = call.outputs[0];
      const int64_t gate = dy.dims[axis] * x.strides[axis];
      const int64_t gate_out = dy.dims[axis] * dx.strides[axis];
      for_each_run<3>(dy.dims, {dy.strides, x.strides, dx.strides},
                      [&](const auto& at, int64_t, int64_t count) {
                        const T* gradient = data_of<T>(dy) + at[0];
                        const T* in = data_of<T>(x) + at[1];
                        T* out = data_of<T>(dx) + at[2];
                        for (int64_t i = 0; i < count; ++i) {
                          const T s = sigmoid(in[i + gate]);
                          out[i] = gradient[i] * s;
                          out[i + gate_out] = gradient[i] * in[i] * s * (T(1) - s);
                        }
                      });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"glu", make_glu},
    {"glu_grad", make_glu_grad},
    {"log_softmax", make_log_softmax},
    {"log_softmax_grad", make_log_softmax_grad},
    {"softmax", make_softmax},
    {"softmax_grad", make_softmax_grad},
};

}  // namespace

std::span<const KernelEntry> softmax_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
