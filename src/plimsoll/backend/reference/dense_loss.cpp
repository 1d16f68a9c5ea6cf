// Keras's further losses per row on dense targets, and their gradients (formulas: ops/dense_loss).
//
// Elements are computed in the element type, sums in double. At kinks the gradient is what
// TensorFlow's gradients give: maximum(x, y) leads to x where they are equal, |0| has slope 0, and
// the largest of several equal numbers shares its gradient among them.

#include <algorithm>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/activation_functions.h"

namespace plimsoll::backend::reference {
namespace {

constexpr double kEpsilon = 1e-7;

template <typename T>
T epsilon() {
  return static_cast<T>(kEpsilon);
}
template <typename T>
T sign(T x) {
  return x > T(0) ? T(1) : (x < T(0) ? T(-1) : T(0));
}

// A loss that is the mean of a function of one element: value(p, t), slope(p, t) = d value / d p.
template <typename T, typename Element>
struct MeanOf {
  Element element;
  double loss(const T* p, const T* t, int64_t count) const {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(element.value(p[i], t[i]));
    return sum / static_cast<double>(count);
  }
  void gradient(const T* p, const T* t, T d, T* dp, int64_t count) const {
    const T scale = d / static_cast<T>(count);
    for (int64_t i = 0; i < count; ++i) dp[i] = element.slope(p[i], t[i]) * scale;
  }
};

template <typename T>
struct PercentageError {
  static T share(T t) { return std::max(std::abs(t), epsilon<T>()); }
  static T value(T p, T t) { return T(100) * std::abs((t - p) / share(t)); }
  static T slope(T p, T t) { return T(-100) * sign((t - p) / share(t)) / share(t); }
};

template <typename T>
struct LogarithmicError {
  static T raised(T x) { return std::log(std::max(x, epsilon<T>()) + T(1)); }
  static T value(T p, T t) {
    const T error = raised(p) - raised(t);
    return error * error;
  }
  static T slope(T p, T t) {
    return p >= epsilon<T>() ? T(2) * (raised(p) - raised(t)) / (p + T(1)) : T(0);
  }
};

template <typename T>
struct Huber {
  T delta;
  T value(T p, T t) const {
    const T error = std::abs(p - t);
    return error <= delta ? T(0.5) * error * error : delta * error - T(0.5) * delta * delta;
  }
  T slope(T p, T t) const {
    const T error = p - t;
    return std::abs(error) <= delta ? error : delta * sign(error);
  }
};

template <typename T>
struct LogCosh {
  static T value(T p, T t) {
    const T x = p - t;
    const T y = T(-2) * x;
    const T softplus = std::log1p(std::exp(-std::abs(y))) + std::max(y, T(0));
    return x + softplus - static_cast<T>(0.69314718055994530942);
  }
  static T slope(T p, T t) { return T(1) - T(2) * ops::stable_sigmoid(T(-2) * (p - t)); }
};

template <typename T>
T hinge_label(T t) {
  return t == T(0) ? T(-1) : t;
}

template <typename T>
struct Hinge {
  static T value(T p, T t) { return std::max(T(1) - hinge_label(t) * p, T(0)); }
  static T slope(T p, T t) { return T(1) - hinge_label(t) * p >= T(0) ? -hinge_label(t) : T(0); }
};

template <typename T>
struct SquaredHinge {
  static T value(T p, T t) { return Hinge<T>::value(p, t) * Hinge<T>::value(p, t); }
  static T slope(T p, T t) { return T(2) * Hinge<T>::value(p, t) * Hinge<T>::slope(p, t); }
};

template <typename T>
struct Poisson {
  static T value(T p, T t) { return p - t * std::log(p + epsilon<T>()); }
  static T slope(T p, T t) { return T(1) - t / (p + epsilon<T>()); }
};

// What the two focal losses share: the factor of the cross-entropy and its slope by p_t.
template <typename T>
struct Focus {
  T gamma;
  T alpha;
  bool balanced;
  T weight(T t) const { return balanced ? t * alpha + (T(1) - t) * (T(1) - alpha) : T(1); }
  static T right(T p, T t) { return t * p + (T(1) - t) * (T(1) - p); }
  T factor(T p_t) const { return std::pow(T(1) - p_t, gamma); }
  T factor_slope(T p_t) const {
    return gamma == T(0) ? T(0) : -gamma * std::pow(T(1) - p_t, gamma - T(1));
  }
};

template <typename T>
struct BinaryFocal {
  Focus<T> focus;
  static T clipped(T p) { return std::min(std::max(p, epsilon<T>()), T(1) - epsilon<T>()); }
  static T entropy(T p, T t) {
    const T c = clipped(p);
    return -(t * std::log(c) + (T(1) - t) * std::log(T(1) - c));
  }
  static T entropy_slope(T p, T t) {
    return clipped(p) == p ? (T(1) - t) / (T(1) - p) - t / p : T(0);
  }
  T value(T p, T t) const {
    return focus.weight(t) * focus.factor(focus.right(p, t)) * entropy(p, t);
  }
  T slope(T p, T t) const {
    const T p_t = focus.right(p, t);
    const T rising = focus.factor_slope(p_t) * (T(2) * t - T(1)) * entropy(p, t);
    return focus.weight(t) * (rising + focus.factor(p_t) * entropy_slope(p, t));
  }
};

template <typename T>
struct BinaryFocalLogits {
  Focus<T> focus;
  static T entropy(T x, T t) {
    return std::max(x, T(0)) - x * t + std::log1p(std::exp(-std::abs(x)));
  }
  T value(T x, T t) const {
    const T p = ops::stable_sigmoid(x);
    return focus.weight(t) * focus.factor(focus.right(p, t)) * entropy(x, t);
  }
  T slope(T x, T t) const {
    const T p = ops::stable_sigmoid(x);
    const T p_t = focus.right(p, t);
    const T rising = focus.factor_slope(p_t) * (T(2) * t - T(1)) * p * (T(1) - p) * entropy(x, t);
    return focus.weight(t) * (rising + focus.factor(p_t) * (p - t));
  }
};

template <typename T>
struct CategoricalHinge {
  static T other(const T* p, const T* t, int64_t i) { return (T(1) - t[i]) * p[i]; }
  static T largest(const T* p, const T* t, int64_t count) {
    T most = other(p, t, 0);
    for (int64_t i = 1; i < count; ++i) most = std::max(most, other(p, t, i));
    return most;
  }
  static T margin(const T* p, const T* t, int64_t count) {
    double right = 0;
    for (int64_t i = 0; i < count; ++i) right += static_cast<double>(t[i] * p[i]);
    return largest(p, t, count) - static_cast<T>(right) + T(1);
  }
  double loss(const T* p, const T* t, int64_t count) const {
    return static_cast<double>(std::max(margin(p, t, count), T(0)));
  }
  void gradient(const T* p, const T* t, T d, T* dp, int64_t count) const {
    const bool active = margin(p, t, count) >= T(0);
    const T most = largest(p, t, count);
    int64_t ties = 0;
    for (int64_t i = 0; i < count; ++i) ties += other(p, t, i) == most ? 1 : 0;
    for (int64_t i = 0; i < count; ++i) {
      const T share = other(p, t, i) == most
                          ? (T(1) - t[i]) / static_cast<T>(std::max<int64_t>(ties, 1))
                          : T(0);
      dp[i] = active ? (share - t[i]) * d : T(0);
    }
  }
};

template <typename T>
struct KlDivergence {
  static T clipped(T x) { return std::min(std::max(x, epsilon<T>()), T(1)); }
  double loss(const T* p, const T* t, int64_t count) const {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += static_cast<double>(clipped(t[i]) * std::log(clipped(t[i]) / clipped(p[i])));
    }
    return sum;
  }
  void gradient(const T* p, const T* t, T d, T* dp, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      dp[i] = clipped(p[i]) == p[i] ? -clipped(t[i]) / p[i] * d : T(0);
    }
  }
};

template <typename T>
struct CosineSimilarity {
  // 1 over the norm, at most 1 / epsilon.
  static double scale(const T* x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += square(x[i]);
    return std::min(1.0 / std::sqrt(sum), 1.0 / kEpsilon);
  }
  static double dot(const T* p, const T* t, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(p[i]) * static_cast<double>(t[i]);
    return sum;
  }
  double loss(const T* p, const T* t, int64_t count) const {
    return -dot(p, t, count) * scale(p, count) * scale(t, count);
  }
  void gradient(const T* p, const T* t, T d, T* dp, int64_t count) const {
    const double of_p = scale(p, count);
    const double of_t = scale(t, count);
    const bool clipped = of_p >= 1.0 / kEpsilon;
    const double along = clipped ? 0.0 : dot(p, t, count) * of_p * of_p;
    for (int64_t i = 0; i < count; ++i) {
      const double across = static_cast<double>(t[i]) - along * static_cast<double>(p[i]);
      dp[i] = static_cast<T>(-across * of_p * of_t) * d;
    }
  }
};

template <typename T>
struct CategoricalFocal {
  Focus<T> focus;
  static T total(const T* p, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(p[i]);
    return static_cast<T>(sum);
  }
  T value(T q, T t) const {
    const T c = BinaryFocal<T>::clipped(q);
    return -t * std::log(c) * focus.alpha * focus.factor(c);
  }
  T slope(T q, T t) const {
    if (BinaryFocal<T>::clipped(q) != q) return T(0);
    return -t * focus.alpha * (focus.factor(q) / q + focus.factor_slope(q) * std::log(q));
  }
  double loss(const T* p, const T* t, int64_t count) const {
    const T sum = total(p, count);
    double loss = 0;
    for (int64_t i = 0; i < count; ++i) loss += static_cast<double>(value(p[i] / sum, t[i]));
    return loss;
  }
  void gradient(const T* p, const T* t, T d, T* dp, int64_t count) const {
    const T sum = total(p, count);
    double along = 0;
    for (int64_t i = 0; i < count; ++i) {
      along += static_cast<double>(slope(p[i] / sum, t[i])) * static_cast<double>(p[i] / sum);
    }
    for (int64_t i = 0; i < count; ++i) {
      dp[i] = (slope(p[i] / sum, t[i]) - static_cast<T>(along)) / sum * d;
    }
  }
};

template <typename T, typename Loss>
std::unique_ptr<Kernel> loss_kernel(Loss row) {
  return kernel_of([row](const KernelCall& call) {
    const Operand& p = call.inputs[0];
    const Operand& t = call.inputs[1];
    const Operand& loss = call.outputs[0];
    for_each_index<3>(
        loss.dims, {p.strides, t.strides, loss.strides}, [&](const auto& at, int64_t) {
          data_of<T>(loss)[at[2]] =
              static_cast<T>(row.loss(data_of<T>(p) + at[0], data_of<T>(t) + at[1], row_length(p)));
        });
  });
}

template <typename T, typename Loss>
std::unique_ptr<Kernel> gradient_kernel(Loss row) {
  return kernel_of([row](const KernelCall& call) {
    const Operand& p = call.inputs[0];
    const Operand& t = call.inputs[1];
    const Operand& d = call.inputs[2];
    const Operand& dp = call.outputs[0];
    for_each_index<4>(d.dims, {p.strides, t.strides, d.strides, dp.strides},
                      [&](const auto& at, int64_t) {
                        row.gradient(data_of<T>(p) + at[0], data_of<T>(t) + at[1],
                                     data_of<T>(d)[at[2]], data_of<T>(dp) + at[3], row_length(p));
                      });
  });
}

// Loss and gradient of one kind; make(attributes, T()) gives the row's functions.
template <typename Make>
std::unique_ptr<Kernel> either(const Problem& problem, Make make) {
  const bool gradient = problem.inputs.size() == 3;
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    auto row = make(problem.attributes, zero);
    return gradient ? gradient_kernel<T>(row) : loss_kernel<T>(row);
  });
}

template <template <typename> class Element>
std::unique_ptr<Kernel> make_mean(const Problem& problem) {
  return either(problem, [](const graph::Attributes&, auto zero) {
    using T = decltype(zero);
    return MeanOf<T, Element<T>>{};
  });
}

template <template <typename> class Row>
std::unique_ptr<Kernel> make_row(const Problem& problem) {
  return either(problem, [](const graph::Attributes&, auto zero) { return Row<decltype(zero)>{}; });
}

std::unique_ptr<Kernel> make_huber(const Problem& problem) {
  return either(problem, [](const graph::Attributes& attributes, auto zero) {
    using T = decltype(zero);
    return MeanOf<T, Huber<T>>{{static_cast<T>(attributes.get_double("delta"))}};
  });
}

template <typename T>
Focus<T> focus_of(const graph::Attributes& attributes) {
  return {static_cast<T>(attributes.get_double("gamma")),
          static_cast<T>(attributes.get_double("alpha")),
          attributes.get_bool("apply_class_balancing", false)};
}

template <template <typename> class Element>
std::unique_ptr<Kernel> make_focal(const Problem& problem) {
  return either(problem, [](const graph::Attributes& attributes, auto zero) {
    using T = decltype(zero);
    return MeanOf<T, Element<T>>{{focus_of<T>(attributes)}};
  });
}

std::unique_ptr<Kernel> make_categorical_focal(const Problem& problem) {
  return either(problem, [](const graph::Attributes& attributes, auto zero) {
    using T = decltype(zero);
    return CategoricalFocal<T>{focus_of<T>(attributes)};
  });
}

constexpr KernelEntry kEntries[] = {
    {"binary_focal_crossentropy", make_focal<BinaryFocal>},
    {"binary_focal_crossentropy_grad", make_focal<BinaryFocal>},
    {"binary_focal_crossentropy_logits", make_focal<BinaryFocalLogits>},
    {"binary_focal_crossentropy_logits_grad", make_focal<BinaryFocalLogits>},
    {"categorical_focal_crossentropy", make_categorical_focal},
    {"categorical_focal_crossentropy_grad", make_categorical_focal},
    {"categorical_hinge", make_row<CategoricalHinge>},
    {"categorical_hinge_grad", make_row<CategoricalHinge>},
    {"cosine_similarity", make_row<CosineSimilarity>},
    {"cosine_similarity_grad", make_row<CosineSimilarity>},
    {"hinge", make_mean<Hinge>},
    {"hinge_grad", make_mean<Hinge>},
    {"huber", make_huber},
    {"huber_grad", make_huber},
    {"kl_divergence", make_row<KlDivergence>},
    {"kl_divergence_grad", make_row<KlDivergence>},
    {"log_cosh", make_mean<LogCosh>},
    {"log_cosh_grad", make_mean<LogCosh>},
    {"mean_absolute_percentage_error", make_mean<PercentageError>},
    {"mean_absolute_percentage_error_grad", make_mean<PercentageError>},
    {"mean_squared_logarithmic_error", make_mean<LogarithmicError>},
    {"mean_squared_logarithmic_error_grad", make_mean<LogarithmicError>},
    {"poisson", make_mean<Poisson>},
    {"poisson_grad", make_mean<Poisson>},
    {"squared_hinge", make_mean<SquaredHinge>},
    {"squared_hinge_grad", make_mean<SquaredHinge>},
};

}  // namespace

std::span<const KernelEntry> dense_loss_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
