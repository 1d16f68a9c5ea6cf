// Cross-entropies on class numbers: from probabilities, and from logits in parts that can be cut
// along the classes. A label that is no class picks nothing.

#include <algorithm>

#include "backend/reference/labels.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

constexpr std::string_view kClasses = "classes";

// First class of the block that a call covers.
int64_t first_class(const KernelCall& call, int axis) {
  return axis < 0 ? 0 : call.begin[static_cast<size_t>(axis)];
}

// (maximum, Σ exp(x − maximum)) of one stretch of logits.
template <typename T>
struct LogSum {
  T most;
  T sum;
};

template <typename T>
LogSum<T> log_sum_of(const T* x, int64_t count) {
  T most = x[0];
  for (int64_t i = 1; i < count; ++i) {
    if (x[i] > most || x[i] != x[i]) most = x[i];
  }
  if (most == -std::numeric_limits<T>::infinity()) return {most, T(0)};
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(std::exp(x[i] - most));
  return {most, static_cast<T>(sum)};
}

template <typename T>
LogSum<T> merge(LogSum<T> a, LogSum<T> b) {
  const T most = b.most > a.most || b.most != b.most ? b.most : a.most;
  if (most == -std::numeric_limits<T>::infinity()) return {most, T(0)};
  return {most, a.sum * std::exp(a.most - most) + b.sum * std::exp(b.most - most)};
}

std::unique_ptr<Kernel> make_log_sum_exp(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      for_each_index<2>(row_dims(x), {x.strides, y.strides}, [&](const auto& at, int64_t) {
        T* pair = data_of<T>(y) + at[1];
        LogSum<T> result = log_sum_of<T>(data_of<T>(x) + at[0], row_length(x));
        if (!call.first) result = merge<T>({pair[0], pair[1]}, result);
        pair[0] = result.most;
        pair[1] = result.sum;
      });
    });
  });
}

std::unique_ptr<Kernel> make_pick_class(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of(
        [axis = problem.axis(kClasses), dtype = problem.inputs[1].dtype](const KernelCall& call) {
          const Operand& x = call.inputs[0];
          const Operand& labels = call.inputs[1];
          const Operand& y = call.outputs[0];
          const int64_t first = first_class(call, axis);
          for_each_index<3>(row_dims(x), {x.strides, labels.strides, y.strides},
                            [&](const auto& at, int64_t) {
                              const int64_t label = read_label(labels, dtype, at[1]) - first;
                              const bool here = label >= 0 && label < row_length(x);
                              const T picked = here ? data_of<T>(x)[at[0] + label] : T(0);
                              T& out = data_of<T>(y)[at[2]];
                              out = call.first ? picked : out + picked;
                            });
        });
  });
}

std::unique_ptr<Kernel> make_sparse_crossentropy(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& lse = call.inputs[0];
      const Operand& picked = call.inputs[1];
      const Operand& y = call.outputs[0];
      for_each_index<3>(
          y.dims, {lse.strides, picked.strides, y.strides}, [&](const auto& at, int64_t) {
            const T* pair = data_of<T>(lse) + at[0];
            data_of<T>(y)[at[2]] = std::log(pair[1]) - (data_of<T>(picked)[at[1]] - pair[0]);
          });
    });
  });
}

std::unique_ptr<Kernel> make_softmax_crossentropy_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of(
        [axis = problem.axis(kClasses), dtype = problem.inputs[2].dtype](const KernelCall& call) {
          const Operand& x = call.inputs[0];
          const Operand& lse = call.inputs[1];
          const Operand& labels = call.inputs[2];
          const Operand& d = call.inputs[3];
          const Operand& dx = call.outputs[0];
          const int64_t first = first_class(call, axis);
          for_each_index<5>(row_dims(x),
                            {x.strides, lse.strides, labels.strides, d.strides, dx.strides},
                            [&](const auto& at, int64_t) {
                              const T* in = data_of<T>(x) + at[0];
                              const T* pair = data_of<T>(lse) + at[1];
                              const int64_t label = read_label(labels, dtype, at[2]) - first;
                              const T scale = data_of<T>(d)[at[3]];
                              T* out = data_of<T>(dx) + at[4];
                              for (int64_t c = 0; c < row_length(x); ++c) {
                                const T p = std::exp(in[c] - pair[0]) / pair[1];
                                out[c] = (p - (c == label ? T(1) : T(0))) * scale;
                              }
                            });
        });
  });
}

template <typename T>
T clip_probability(T p) {
  const T low = static_cast<T>(1e-7);
  return std::min(std::max(p, low), T(1) - low);
}

// Softmax cross-entropy of x = log clip(p): Σ exp(x) is Σ clip(p).
template <typename T>
double clipped_sum(const T* p, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(std::exp(std::log(clip_probability(p[i]))));
  }
  return sum;
}

std::unique_ptr<Kernel> make_sparse_categorical(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([dtype = problem.inputs[1].dtype](const KernelCall& call) {
      const Operand& p = call.inputs[0];
      const Operand& labels = call.inputs[1];
      const Operand& y = call.outputs[0];
      for_each_index<3>(
          y.dims, {p.strides, labels.strides, y.strides}, [&](const auto& at, int64_t) {
            const T* in = data_of<T>(p) + at[0];
            const int64_t label = read_label(labels, dtype, at[1]);
            const bool known = label >= 0 && label < row_length(p);
            const T picked = known ? std::log(clip_probability(in[label])) : T(0);
            const double sum = clipped_sum(in, row_length(p));
            data_of<T>(y)[at[2]] = static_cast<T>(std::log(sum) - static_cast<double>(picked));
          });
    });
  });
}

std::unique_ptr<Kernel> make_sparse_categorical_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([dtype = problem.inputs[1].dtype](const KernelCall& call) {
      const Operand& p = call.inputs[0];
      const Operand& labels = call.inputs[1];
      const Operand& d = call.inputs[2];
      const Operand& dp = call.outputs[0];
      for_each_index<4>(
          d.dims, {p.strides, labels.strides, d.strides, dp.strides}, [&](const auto& at, int64_t) {
            const T* in = data_of<T>(p) + at[0];
            const int64_t label = read_label(labels, dtype, at[1]);
            const T scale = data_of<T>(d)[at[2]];
            T* out = data_of<T>(dp) + at[3];
            const T sum = static_cast<T>(clipped_sum(in, row_length(p)));
            for (int64_t c = 0; c < row_length(p); ++c) {
              const T clipped = clip_probability(in[c]);
              const T slope = (clipped / sum - (c == label ? T(1) : T(0))) * scale / clipped;
              out[c] = clipped == in[c] ? slope : T(0);
            }
          });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"log_sum_exp", make_log_sum_exp},
    {"pick_class", make_pick_class},
    {"softmax_crossentropy_grad", make_softmax_crossentropy_grad},
    {"sparse_categorical_crossentropy", make_sparse_categorical},
    {"sparse_categorical_crossentropy_grad", make_sparse_categorical_grad},
    {"sparse_crossentropy", make_sparse_crossentropy},
};

}  // namespace

std::span<const KernelEntry> categorical_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
