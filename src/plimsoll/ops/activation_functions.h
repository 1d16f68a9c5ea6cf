#pragma once

// f and f' of Keras's elementwise activations, as scalar functions that every backend shares.
//
// Formulas: Keras 3 `activations`, TensorFlow backend. Everything is computed in the element type.

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/activation_kinds.h"

namespace plimsoll::ops {

template <typename T>
T stable_sigmoid(T x) {
  if (x >= T(0)) return T(1) / (T(1) + std::exp(-x));
  const T e = std::exp(x);
  return e / (T(1) + e);
}

// log(1 + exp(x)) without overflow.
template <typename T>
T stable_softplus(T x) {
  return (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::abs(x)));
}

namespace activation_impl {

inline constexpr double kSeluScale = 1.0507009873554804934193349852946;
inline constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;
inline constexpr double kGeluFactor = 0.79788456080286535587989211986876;  // sqrt(2 / pi)
inline constexpr double kGeluCube = 0.044715;

// Zero for negatives; a NaN stays one.
template <typename T>
T positive_part(T x) {
  return x < T(0) ? T(0) : x;
}
template <typename T>
T clip(T x, T low, T high) {
  return x < low ? low : (x > high ? high : x);
}
template <typename T>
T hard_sigmoid(T x) {
  return clip(x + T(3), T(0), T(6)) / T(6);
}
// 1 / 6 inside of (-3, 3).
template <typename T>
T hard_sigmoid_slope(T x) {
  const T shifted = x + T(3);
  return shifted > T(0) && shifted < T(6) ? T(1) / T(6) : T(0);
}
template <typename T>
T normal_cdf(T x) {
  return T(0.5) * (T(1) + std::erf(x / T(std::numbers::sqrt2)));
}
template <typename T>
T normal_density(T x) {
  return std::exp(T(-0.5) * x * x) * T(0.39894228040143267793994605993438);
}

template <typename T>
T general_relu(const Activation& a, T x) {
  const T threshold = static_cast<T>(a.threshold);
  T y = a.threshold != 0.0 ? (x > threshold ? x : T(0)) : positive_part(x);
  if (a.max_value < std::numeric_limits<double>::infinity()) {
    y = clip(y, T(0), static_cast<T>(a.max_value));
  }
  if (a.negative_slope != 0.0) {
    y -= static_cast<T>(a.negative_slope) * positive_part(threshold - x);
  }
  return y;
}

template <typename T>
T general_relu_slope(const Activation& a, T x) {
  const T threshold = static_cast<T>(a.threshold);
  T slope = x > threshold ? T(1) : T(0);
  if (a.max_value < std::numeric_limits<double>::infinity()) {
    const T top = static_cast<T>(a.max_value);
    // relu6, which Keras uses for a maximum of 6 without threshold, does not pass at 6.
    const bool strict = a.max_value == 6.0 && a.threshold == 0.0;
    if (x > top || (strict && x == top)) slope = T(0);
    if (x > threshold && x < T(0)) slope = T(0);
  }
  if (a.negative_slope != 0.0 && threshold - x > T(0)) slope += static_cast<T>(a.negative_slope);
  return slope;
}

}  // namespace activation_impl

// f(x).
template <typename T>
T activate(const Activation& a, T x) {
  using namespace activation_impl;
  switch (a.kind) {
    case ActivationKind::kLinear:
      return x;
    case ActivationKind::kRelu:
      return positive_part(x);
    case ActivationKind::kGeneralRelu:
      return general_relu(a, x);
    case ActivationKind::kRelu6:
      return clip(x, T(0), T(6));
    case ActivationKind::kLeakyRelu:
      return x > T(0) ? x : static_cast<T>(a.negative_slope) * x;
    case ActivationKind::kSigmoid:
      return stable_sigmoid(x);
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kElu:
      return x > T(0) ? x : static_cast<T>(a.alpha) * std::expm1(x);
    case ActivationKind::kCelu: {
      const T alpha = static_cast<T>(a.alpha);
      return x > T(0) ? x : alpha * std::expm1(x / alpha);
    }
    case ActivationKind::kSelu:
      return x < T(0) ? T(kSeluScaleAlpha) * std::expm1(x) : T(kSeluScale) * x;
    case ActivationKind::kSoftplus:
      return stable_softplus(x);
    case ActivationKind::kSoftsign:
      return x / (T(1) + std::abs(x));
    case ActivationKind::kExponential:
      return std::exp(x);
    case ActivationKind::kGelu:
      return x * normal_cdf(x);
    case ActivationKind::kGeluTanh:
      return T(0.5) * x * (T(1) + std::tanh(T(kGeluFactor) * (x + T(kGeluCube) * x * x * x)));
    case ActivationKind::kSilu:
      return x * stable_sigmoid(x);
    case ActivationKind::kHardSigmoid:
      return hard_sigmoid(x);
    case ActivationKind::kHardSilu:
      return x * hard_sigmoid(x);
    case ActivationKind::kHardTanh:
      return clip(x, T(-1), T(1));
    case ActivationKind::kHardShrink:
      return std::abs(x) > static_cast<T>(a.threshold) ? x : T(0);
    case ActivationKind::kSoftShrink: {
      const T t = static_cast<T>(a.threshold);
      return x > t ? x - t : (x < -t ? x + t : T(0));
    }
    case ActivationKind::kTanhShrink:
      return x - std::tanh(x);
    case ActivationKind::kThreshold:
      return x > static_cast<T>(a.threshold) ? x : static_cast<T>(a.default_value);
    case ActivationKind::kMish:
      return x * std::tanh(stable_softplus(x));
    case ActivationKind::kLogSigmoid:
      return -stable_softplus(-x);
    case ActivationKind::kSquareplus:
      return (x + std::sqrt(x * x + static_cast<T>(a.b))) / T(2);
    case ActivationKind::kSparsePlus:
      return x <= T(-1) ? T(0) : (x < T(1) ? T(0.25) * (x + T(1)) * (x + T(1)) : x);
    case ActivationKind::kSparseSigmoid:
      return x <= T(-1) ? T(0) : (x >= T(1) ? T(1) : T(0.5) * (x + T(1)));
  }
  return x;
}

// f' at `r`, which is y where slope_needs_output says so and x elsewhere.
template <typename T>
T activation_slope(const Activation& a, T r) {
  using namespace activation_impl;
  switch (a.kind) {
    case ActivationKind::kLinear:
      return T(1);
    case ActivationKind::kRelu:
      return r > T(0) ? T(1) : T(0);
    case ActivationKind::kGeneralRelu:
      return general_relu_slope(a, r);
    case ActivationKind::kRelu6:
      return r > T(0) && r < T(6) ? T(1) : T(0);
    case ActivationKind::kLeakyRelu:
      return r > T(0) ? T(1) : static_cast<T>(a.negative_slope);
    case ActivationKind::kSigmoid:
      return r * (T(1) - r);
    case ActivationKind::kTanh:
      return T(1) - r * r;
    case ActivationKind::kElu:
      return r > T(0) ? T(1) : r + static_cast<T>(a.alpha);
    case ActivationKind::kCelu:
      if (r > T(0)) return T(1);
      // max(x, 0) and min(x, 0) both pass at 0.
      return std::exp(r / static_cast<T>(a.alpha)) + (r == T(0) ? T(1) : T(0));
    case ActivationKind::kSelu:
      return r < T(0) ? r + T(kSeluScaleAlpha) : T(kSeluScale);
    case ActivationKind::kSoftplus:
      return stable_sigmoid(r);
    case ActivationKind::kSoftsign: {
      const T d = T(1) + std::abs(r);
      return T(1) / (d * d);
    }
    case ActivationKind::kExponential:
      return r;
    case ActivationKind::kGelu:
      return normal_cdf(r) + r * normal_density(r);
    case ActivationKind::kGeluTanh: {
      const T t = std::tanh(T(kGeluFactor) * (r + T(kGeluCube) * r * r * r));
      const T inner = T(kGeluFactor) * (T(1) + T(3 * kGeluCube) * r * r);
      return T(0.5) * (T(1) + t) + T(0.5) * r * (T(1) - t * t) * inner;
    }
    case ActivationKind::kSilu: {
      const T s = stable_sigmoid(r);
      return s * (T(1) + r * (T(1) - s));
    }
    case ActivationKind::kHardSigmoid:
      return hard_sigmoid_slope(r);
    case ActivationKind::kHardSilu:
      return hard_sigmoid(r) + r * hard_sigmoid_slope(r);
    case ActivationKind::kHardTanh:
      return r >= T(-1) && r <= T(1) ? T(1) : T(0);
    case ActivationKind::kHardShrink:
    case ActivationKind::kSoftShrink:
      return r != T(0) ? T(1) : T(0);
    case ActivationKind::kTanhShrink: {
      const T t = std::tanh(r);
      return t * t;
    }
    case ActivationKind::kThreshold:
      return r > static_cast<T>(a.threshold) ? T(1) : T(0);
    case ActivationKind::kMish: {
      const T t = std::tanh(stable_softplus(r));
      return t + r * (T(1) - t * t) * stable_sigmoid(r);
    }
    case ActivationKind::kLogSigmoid:
      return stable_sigmoid(-r);
    case ActivationKind::kSquareplus:
      return (T(1) + r / std::sqrt(r * r + static_cast<T>(a.b))) / T(2);
    case ActivationKind::kSparsePlus:
      return r <= T(-1) ? T(0) : (r < T(1) ? T(0.5) * (r + T(1)) : T(1));
    case ActivationKind::kSparseSigmoid:
      return r > T(-1) && r < T(1) ? T(0.5) : T(0);
  }
  return T(1);
}

}  // namespace plimsoll::ops
