#pragma once

// Functions of one number that are no activations, and their slopes, as every backend computes
// them.

#include <cmath>

#include "graph/attributes.h"

namespace plimsoll::ops {

enum class UnaryKind : uint8_t {
  kAbs,
  kCeil,
  kCos,
  kExpm1,
  kFloor,
  kLog,
  kLog1p,
  kPower,
  kReciprocal,
  kRound,
  kRsqrt,
  kSign,
  kSin,
  kSqrt,
};

struct UnaryFunction {
  UnaryKind kind = UnaryKind::kAbs;
  double exponent = 1.0;  // power
};

// Reads {kind, …}. Throws kModel.
UnaryFunction read_unary(const graph::Attributes& attributes);

template <typename T>
T sign_of(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;  // a NaN stays one
}

// f(x).
template <typename T>
T unary_value(const UnaryFunction& f, T x) {
  switch (f.kind) {
    case UnaryKind::kAbs:
      return std::abs(x);
    case UnaryKind::kCeil:
      return std::ceil(x);
    case UnaryKind::kCos:
      return std::cos(x);
    case UnaryKind::kExpm1:
      return std::expm1(x);
    case UnaryKind::kFloor:
      return std::floor(x);
    case UnaryKind::kLog:
      return std::log(x);
    case UnaryKind::kLog1p:
      return std::log1p(x);
    case UnaryKind::kPower:
      return std::pow(x, static_cast<T>(f.exponent));
    case UnaryKind::kReciprocal:
      return T(1) / x;
    case UnaryKind::kRound:
      return std::nearbyint(x);
    case UnaryKind::kRsqrt:
      return T(1) / std::sqrt(x);
    case UnaryKind::kSign:
      return sign_of(x);
    case UnaryKind::kSin:
      return std::sin(x);
    case UnaryKind::kSqrt:
      return std::sqrt(x);
  }
  return x;
}

// f'(x).
template <typename T>
T unary_slope(const UnaryFunction& f, T x) {
  switch (f.kind) {
    case UnaryKind::kAbs:
      return sign_of(x);
    case UnaryKind::kCeil:
    case UnaryKind::kFloor:
    case UnaryKind::kRound:
    case UnaryKind::kSign:
      return T(0);
    case UnaryKind::kCos:
      return -std::sin(x);
    case UnaryKind::kExpm1:
      return std::exp(x);
    case UnaryKind::kLog:
      return T(1) / x;
    case UnaryKind::kLog1p:
      return T(1) / (T(1) + x);
    case UnaryKind::kPower: {
      const T p = static_cast<T>(f.exponent);
      return p == T(0) ? T(0) : p * std::pow(x, p - T(1));
    }
    case UnaryKind::kReciprocal:
      return T(-1) / (x * x);
    case UnaryKind::kRsqrt:
      return T(-0.5) / (x * std::sqrt(x));
    case UnaryKind::kSin:
      return std::cos(x);
    case UnaryKind::kSqrt:
      return T(0.5) / std::sqrt(x);
  }
  return T(1);
}

}  // namespace plimsoll::ops
