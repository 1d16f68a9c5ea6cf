// Losses per row on dense targets, and their gradients.
//
// A loss is a function of one row (prediction, target, length) → number; a gradient of one row and
// the row's d(loss) writes the prediction's. Elements are computed in the element type, sums in
// double.

#include <algorithm>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/activation_functions.h"

namespace plimsoll::backend::reference {
namespace {

// Keras's epsilon for probabilities.
template <typename T>
T low_probability() {
  return static_cast<T>(1e-7);
}
template <typename T>
T high_probability() {
  return T(1) - low_probability<T>();
}
template <typename T>
T clip_probability(T p) {
  return std::min(std::max(p, low_probability<T>()), high_probability<T>());
}
// TensorFlow's clipping passes gradients at its borders.
template <typename T>
bool unclipped(T p) {
  return p >= low_probability<T>() && p <= high_probability<T>();
}

template <typename T>
T binary_logits_element(T x, T z) {
  return (x > T(0) ? x : T(0)) - x * z + std::log1p(std::exp(-std::abs(x)));
}

template <typename T>
struct BinaryLogits {
  static double loss(const T* x, const T* z, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(binary_logits_element(x[i], z[i]));
    return sum / static_cast<double>(count);
  }
  static void gradient(const T* x, const T* z, T d, T* dx, int64_t count) {
    const T scale = d / static_cast<T>(count);
    for (int64_t i = 0; i < count; ++i) dx[i] = (ops::stable_sigmoid(x[i]) - z[i]) * scale;
  }
};

template <typename T>
struct Binary {
  static double loss(const T* p, const T* z, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      const T c = clip_probability(p[i]);
      sum -= static_cast<double>(z[i] * std::log(c) + (T(1) - z[i]) * std::log(T(1) - c));
    }
    return sum / static_cast<double>(count);
  }
  static void gradient(const T* p, const T* z, T d, T* dp, int64_t count) {
    const T scale = d / static_cast<T>(count);
    for (int64_t i = 0; i < count; ++i) {
      const T slope = (T(1) - z[i]) / (T(1) - p[i]) - z[i] / p[i];
      dp[i] = unclipped(p[i]) ? slope * scale : T(0);
    }
  }
};

template <typename T>
T row_maximum(const T* x, int64_t count) {
  T best = x[0];
  for (int64_t i = 1; i < count; ++i) {
    if (x[i] > best || x[i] != x[i]) best = x[i];
  }
  return best;
}

template <typename T>
double exponential_sum(const T* x, T most, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(std::exp(x[i] - most));
  return sum;
}

template <typename T>
struct CategoricalLogits {
  static double loss(const T* x, const T* t, int64_t count) {
    const T most = row_maximum(x, count);
    const double log_sum = std::log(exponential_sum(x, most, count));
    double loss = 0;
    for (int64_t i = 0; i < count; ++i) {
      loss += static_cast<double>(t[i]) * (log_sum - static_cast<double>(x[i] - most));
    }
    return loss;
  }
  static void gradient(const T* x, const T* t, T d, T* dx, int64_t count) {
    const T most = row_maximum(x, count);
    const T sum = static_cast<T>(exponential_sum(x, most, count));
    for (int64_t i = 0; i < count; ++i) dx[i] = (std::exp(x[i] - most) / sum - t[i]) * d;
  }
};

// q = p / Σ p, then −Σ t log clip(q).
template <typename T>
struct Categorical {
  static T total(const T* p, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(p[i]);
    return static_cast<T>(sum);
  }
  static double loss(const T* p, const T* t, int64_t count) {
    const T sum = total(p, count);
    double loss = 0;
    for (int64_t i = 0; i < count; ++i) {
      loss -= static_cast<double>(t[i] * std::log(clip_probability(p[i] / sum)));
    }
    return loss;
  }
  // d(loss)/dq_i
  static T slope(T q, T t, T d) { return unclipped(q) ? -t / q * d : T(0); }
  static void gradient(const T* p, const T* t, T d, T* dp, int64_t count) {
    const T sum = total(p, count);
    double dot = 0;
    for (int64_t i = 0; i < count; ++i) {
      dot += static_cast<double>(slope(p[i] / sum, t[i], d)) * static_cast<double>(p[i] / sum);
    }
    for (int64_t i = 0; i < count; ++i) {
      dp[i] = (slope(p[i] / sum, t[i], d) - static_cast<T>(dot)) / sum;
    }
  }
};

template <typename T>
struct SquaredError {
  static double loss(const T* p, const T* t, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += square(p[i] - t[i]);
    return sum / static_cast<double>(count);
  }
  static void gradient(const T* p, const T* t, T d, T* dp, int64_t count) {
    const T scale = d / static_cast<T>(count);
    for (int64_t i = 0; i < count; ++i) dp[i] = T(2) * (p[i] - t[i]) * scale;
  }
};

template <typename T>
struct AbsoluteError {
  static double loss(const T* p, const T* t, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(std::abs(p[i] - t[i]));
    return sum / static_cast<double>(count);
  }
  static void gradient(const T* p, const T* t, T d, T* dp, int64_t count) {
    const T scale = d / static_cast<T>(count);
    for (int64_t i = 0; i < count; ++i) {
      const T error = p[i] - t[i];
      dp[i] = error > T(0) ? scale : (error < T(0) ? -scale : error * scale);
    }
  }
};

template <template <typename> class Loss>
std::unique_ptr<Kernel> make_loss(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& p = call.inputs[0];
      const Operand& t = call.inputs[1];
      const Operand& loss = call.outputs[0];
      for_each_index<3>(
          loss.dims, {p.strides, t.strides, loss.strides}, [&](const auto& at, int64_t) {
            data_of<T>(loss)[at[2]] = static_cast<T>(
                Loss<T>::loss(data_of<T>(p) + at[0], data_of<T>(t) + at[1], row_length(p)));
          });
    });
  });
}

template <template <typename> class Loss>
std::unique_ptr<Kernel> make_loss_grad(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& p = call.inputs[0];
      const Operand& t = call.inputs[1];
      const Operand& d = call.inputs[2];
      const Operand& dp = call.outputs[0];
      for_each_index<4>(
          d.dims, {p.strides, t.strides, d.strides, dp.strides}, [&](const auto& at, int64_t) {
            Loss<T>::gradient(data_of<T>(p) + at[0], data_of<T>(t) + at[1], data_of<T>(d)[at[2]],
                              data_of<T>(dp) + at[3], row_length(p));
          });
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"binary_crossentropy", make_loss<Binary>},
    {"binary_crossentropy_grad", make_loss_grad<Binary>},
    {"binary_crossentropy_logits", make_loss<BinaryLogits>},
    {"binary_crossentropy_logits_grad", make_loss_grad<BinaryLogits>},
    {"categorical_crossentropy", make_loss<Categorical>},
    {"categorical_crossentropy_grad", make_loss_grad<Categorical>},
    {"categorical_crossentropy_logits", make_loss<CategoricalLogits>},
    {"categorical_crossentropy_logits_grad", make_loss_grad<CategoricalLogits>},
    {"mean_absolute_error", make_loss<AbsoluteError>},
    {"mean_absolute_error_grad", make_loss_grad<AbsoluteError>},
    {"mean_squared_error", make_loss<SquaredError>},
    {"mean_squared_error_grad", make_loss_grad<SquaredError>},
};

}  // namespace

std::span<const KernelEntry> loss_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
