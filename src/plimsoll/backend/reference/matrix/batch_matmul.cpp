// Products of each sample's matrices, and vectors brought to length one; sums in double.

#include <algorithm>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

std::unique_ptr<Kernel> make_batch_matmul(const Problem& problem) {
  const bool transposed_left = problem.attributes.get_bool("transpose_left", false);
  const bool transposed_right = problem.attributes.get_bool("transpose_right", false);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([transposed_left, transposed_right](const KernelCall& call) {
      const Operand& a = call.inputs[0];
      const Operand& b = call.inputs[1];
      const Operand& y = call.outputs[0];
      const int64_t inner = a.dims[transposed_left ? 1 : 2];
      const int64_t a_row = a.strides[transposed_left ? 2 : 1];
      const int64_t a_inner = a.strides[transposed_left ? 1 : 2];
      const int64_t b_column = b.strides[transposed_right ? 1 : 2];
      const int64_t b_inner = b.strides[transposed_right ? 2 : 1];
      const std::array<int64_t, 3> a_strides = {a.strides[0], a_row, 0};
      const std::array<int64_t, 3> b_strides = {b.strides[0], 0, b_column};
      for_each_index<3>(y.dims, {Strides(a_strides), Strides(b_strides), y.strides},
                        [&](const auto& at, int64_t) {
                          const T* left = data_of<const T>(a) + at[0];
                          const T* right = data_of<const T>(b) + at[1];
                          double sum = 0;
                          for (int64_t k = 0; k < inner; ++k) {
                            sum += static_cast<double>(left[k * a_inner]) *
                                   static_cast<double>(right[k * b_inner]);
                          }
                          data_of<T>(y)[at[2]] = static_cast<T>(sum);
                        });
    });
  });
}

// Dimensions and strides of an operand without one axis.
struct Lines {
  std::array<int64_t, kMaxRank> numbers{};
  size_t count = 0;
  Lines(std::span<const int64_t> all, size_t axis) {
    for (size_t d = 0; d < all.size(); ++d) {
      if (d != axis) numbers[count++] = all[d];
    }
  }
  std::span<const int64_t> get() const { return {numbers.data(), count}; }
};

size_t axis_of(const Problem& problem) {
  const int64_t axis = problem.attributes.get_int("axis", -1);
  return static_cast<size_t>(axis < 0 ? axis + problem.inputs[0].shape.rank() : axis);
}

// 1 / the length of a line of x, at most 1 / epsilon; whether that bound was met.
struct Inverse {
  double value;
  bool bounded;
};

template <typename T>
Inverse inverse_length(const T* x, int64_t count, int64_t stride, double epsilon) {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) squares += square(x[i * stride]);
  const double length = std::sqrt(squares);
  return length > epsilon ? Inverse{1.0 / length, false} : Inverse{1.0 / epsilon, true};
}

std::unique_ptr<Kernel> make_l2_normalize(const Problem& problem) {
  const size_t axis = axis_of(problem);
  const double epsilon = problem.attributes.get_double("epsilon");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([axis, epsilon](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const Lines dims(x.dims, axis), from(x.strides, axis), to(y.strides, axis);
      const int64_t count = x.dims[axis];
      for_each_index<2>(dims.get(), {from.get(), to.get()}, [&](const auto& at, int64_t) {
        const T* in = data_of<const T>(x) + at[0];
        T* out = data_of<T>(y) + at[1];
        const double r = inverse_length(in, count, x.strides[axis], epsilon).value;
        for (int64_t i = 0; i < count; ++i) {
          out[i * y.strides[axis]] =
              static_cast<T>(static_cast<double>(in[i * x.strides[axis]]) * r);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_l2_normalize_grad(const Problem& problem) {
  const size_t axis = axis_of(problem);
  const double epsilon = problem.attributes.get_double("epsilon");
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([axis, epsilon](const KernelCall& call) {
      const Operand& dy = call.inputs[0];
      const Operand& x = call.inputs[1];
      const Operand& dx = call.outputs[0];
      const Lines dims(x.dims, axis), of_dy(dy.strides, axis), of_x(x.strides, axis),
          of_dx(dx.strides, axis);
      const int64_t count = x.dims[axis];
      for_each_index<3>(
          dims.get(), {of_dy.get(), of_x.get(), of_dx.get()}, [&](const auto& at, int64_t) {
            const T* gradient = data_of<const T>(dy) + at[0];
            const T* in = data_of<const T>(x) + at[1];
            T* out = data_of<T>(dx) + at[2];
            const Inverse r = inverse_length(in, count, x.strides[axis], epsilon);
            double along = 0;  // Σ dy y
            for (int64_t i = 0; i < count && !r.bounded; ++i) {
              along += static_cast<double>(gradient[i * dy.strides[axis]]) *
                       static_cast<double>(in[i * x.strides[axis]]) * r.value;
            }
            for (int64_t i = 0; i < count; ++i) {
              const double y = static_cast<double>(in[i * x.strides[axis]]) * r.value;
              const double inner = static_cast<double>(gradient[i * dy.strides[axis]]) - y * along;
              out[i * dx.strides[axis]] = static_cast<T>(inner * r.value);
            }
          });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"batch_matmul", make_batch_matmul},
    {"l2_normalize", make_l2_normalize},
    {"l2_normalize_grad", make_l2_normalize_grad},
};

}  // namespace

std::span<const KernelEntry> batch_matmul_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
