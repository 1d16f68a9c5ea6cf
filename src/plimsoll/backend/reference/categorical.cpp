// Cross-entropies on class numbers: from probabilities, and from logits in parts that can be cut
// along the classes. A label that is no class picks nothing.

#include <algorithm>
#include <cmath>
#include <limits>

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

std::unique_ptr<Kernel> make_generalized(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([dtype = problem.inputs[1].dtype,
                      q = problem.attributes.get_double("q")](const KernelCall& call) {
      const Operand& p = call.inputs[0];
      const Operand& labels = call.inputs[1];
      const Operand& y = call.outputs[0];
      for_each_index<3>(
          y.dims, {p.strides, labels.strides, y.strides}, [&](const auto& at, int64_t) {
            const int64_t label = read_label(labels, dtype, at[1]);
            const bool known = label >= 0 && label < row_length(p);
            const double picked =
                known ? static_cast<double>(data_of<T>(p)[at[0] + label * p.strides.back()]) : 0.0;
            data_of<T>(y)[at[2]] = static_cast<T>((1 - std::pow(picked, q)) / q);
          });
    });
  });
}

std::unique_ptr<Kernel> make_generalized_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([dtype = problem.inputs[1].dtype,
                      q = problem.attributes.get_double("q")](const KernelCall& call) {
      const Operand& p = call.inputs[0];
      const Operand& labels = call.inputs[1];
      const Operand& d = call.inputs[2];
      const Operand& dp = call.outputs[0];
      for_each_index<4>(d.dims, {p.strides, labels.strides, d.strides, dp.strides},
                        [&](const auto& at, int64_t) {
                          const T* in = data_of<T>(p) + at[0];
                          T* out = data_of<T>(dp) + at[3];
                          std::fill_n(out, row_length(p), T(0));
                          const int64_t label = read_label(labels, dtype, at[1]);
                          if (label < 0 || label >= row_length(p)) return;
                          const double slope = -std::pow(static_cast<double>(in[label]), q - 1);
                          out[label] = static_cast<T>(slope) * data_of<T>(d)[at[2]];
                        });
    });
  });
}

// One batch of embeddings that are compared with each other.
template <typename T>
struct Circle {
  const KernelCall& call;
  DType labels;
  double gamma;
  double margin;
  bool remove_diagonal;

  int64_t count() const { return call.inputs[0].dims[0]; }
  const T* row(int64_t i) const {
    return data_of<const T>(call.inputs[0]) + i * call.inputs[0].strides[0];
  }
  bool is_pair(int64_t i, int64_t j, bool alike) const {
    const Operand& y = call.inputs[1];
    const bool same =
        read_label(y, labels, i * y.strides[0]) == read_label(y, labels, j * y.strides[0]);
    return alike ? same && !(remove_diagonal && i == j) : !same;
  }
  double cosine(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t k = 0; k < row_length(call.inputs[0]); ++k) {
      sum += static_cast<double>(row(i)[k]) * static_cast<double>(row(j)[k]);
    }
    return sum;
  }
  // What a pair of that distance adds, and its slope.
  double term(double d, bool alike) const {
    if (alike) return -gamma * std::max(margin + d, 0.0) * (margin - d);
    return gamma * std::max(1 + margin - d, 0.0) * (1 - margin - d);
  }
  double slope(double d, bool alike) const {
    if (alike) return margin + d >= 0 ? 2 * gamma * d : 0.0;
    return 1 + margin - d >= 0 ? -2 * gamma * (1 - d) : 0.0;
  }
  // log Σ exp of a row's terms; −∞ where there are none.
  double row_sum(int64_t i, bool alike) const {
    double most = -std::numeric_limits<double>::infinity();
    const auto each = [&](const auto& visit) {
      for (int64_t j = 0; j < count(); ++j) {
        if (is_pair(i, j, alike)) visit(term(std::max(1 - cosine(i, j), 0.0), alike));
      }
    };
    each([&](double value) { most = std::max(most, value); });
    if (std::isinf(most)) return most;
    double sum = 0;
    each([&](double value) { sum += std::exp(value - most); });
    return most + std::log(sum);
  }

  static double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

  void losses() const {
    const Operand& y = call.outputs[0];
    for (int64_t i = 0; i < count(); ++i) {
      const double sum = row_sum(i, true) + row_sum(i, false);
      data_of<T>(y)[i * y.strides[0]] = static_cast<T>(std::isinf(sum) ? 0.0 : softplus(sum));
    }
  }

  void gradients() const {
    const Operand& d = call.inputs[2];
    const Operand& out = call.outputs[0];
    const int64_t length = row_length(out);
    const auto row_of = [&](int64_t i) { return data_of<T>(out) + i * out.strides[0]; };
    for (int64_t i = 0; i < count(); ++i) std::fill_n(row_of(i), length, T(0));
    for (int64_t i = 0; i < count(); ++i) {
      const double sums[] = {row_sum(i, false), row_sum(i, true)};
      if (std::isinf(sums[0] + sums[1])) continue;
      const double outer =
          static_cast<double>(data_of<T>(d)[i * d.strides[0]]) / (1 + std::exp(-sums[0] - sums[1]));
      for (int64_t j = 0; j < count(); ++j) {
        const bool alike = is_pair(i, j, true);
        if (!alike && !is_pair(i, j, false)) continue;
        const double apart = 1 - cosine(i, j);
        if (apart < 0) continue;
        const double share = std::exp(term(apart, alike) - sums[alike ? 1 : 0]);
        const T scale = static_cast<T>(-outer * share * slope(apart, alike));
        for (int64_t k = 0; k < length; ++k) {
          row_of(i)[k] += scale * row(j)[k];
          row_of(j)[k] += scale * row(i)[k];
        }
      }
    }
  }
};

std::unique_ptr<Kernel> make_circle_of(const Problem& problem, bool gradient) {
  const graph::Attributes& given = problem.attributes;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([gradient, dtype = problem.inputs[1].dtype, gamma = given.get_double("gamma"),
                      margin = given.get_double("margin"),
                      off = given.get_bool("remove_diagonal", true)](const KernelCall& call) {
      const Circle<T> circle{call, dtype, gamma, margin, off};
      gradient ? circle.gradients() : circle.losses();
    });
  });
}

std::unique_ptr<Kernel> make_circle(const Problem& problem) {
  return make_circle_of(problem, false);
}
std::unique_ptr<Kernel> make_circle_grad(const Problem& problem) {
  return make_circle_of(problem, true);
}

constexpr KernelEntry kEntries[] = {
    {"circle", make_circle},
    {"circle_grad", make_circle_grad},
    {"generalized_crossentropy", make_generalized},
    {"generalized_crossentropy_grad", make_generalized_grad},
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
