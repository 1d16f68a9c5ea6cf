#pragma once

// Functions of one number that are no activations, and their slopes, as every backend computes
// them.

#include <cmath>

#include "graph/attributes.h"

namespace plimsoll::ops {

enum class UnaryKind : uint8_t {
  kAbs,
  kArccos,
  kArccosh,
  kArcsin,
  kArcsinh,
  kArctan,
  kArctanh,
  kCbrt,
  kCeil,
  kCos,
  kCosh,
  kErf,
  kErfc,
  kErfinv,
  kExp2,
  kExpm1,
  kFloor,
  kI0,
  kLog,
  kLog10,
  kLog1p,
  kLog2,
  kPower,
  kReciprocal,
  kRound,
  kRsqrt,
  kSign,
  kSin,
  kSinc,
  kSinh,
  kSqrt,
  kTan,
  kTrunc,
};

struct UnaryFunction {
  UnaryKind kind = UnaryKind::kAbs;
  double exponent = 1.0;  // power
};

// Reads {kind, …}. Throws kModel.
UnaryFunction read_unary(const graph::Attributes& attributes);

// Functions that <cmath> lacks, computed in double.
//
// The inverse of the error function: Winitzki's estimate, then Halley's steps on erf(y) = x.
double inverse_erf(double x);
// Modified Bessel functions of the first kind of order 0 and 1, by their series (DLMF 10.25.2).
double bessel_i0(double x);
double bessel_i1(double x);
// sin(πx) / (πx), 1 at 0, and its slope.
double sinc(double x);
double sinc_slope(double x);

inline constexpr double kLn2 = 0.693147180559945309417;
inline constexpr double kLn10 = 2.302585092994045684018;
inline constexpr double kPi = 3.141592653589793238463;

template <typename T>
T sign_of(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;  // a NaN stays one
}

// The slope of the error function, 2 / √π · exp(−x²).
template <typename T>
T error_slope(T x) {
  return static_cast<T>(1.128379167095512573896) * std::exp(-x * x);
}

// f(x).
template <typename T>
T unary_value(const UnaryFunction& f, T x) {
  switch (f.kind) {
    case UnaryKind::kAbs:
      return std::abs(x);
    case UnaryKind::kArccos:
      return std::acos(x);
    case UnaryKind::kArccosh:
      return std::acosh(x);
    case UnaryKind::kArcsin:
      return std::asin(x);
    case UnaryKind::kArcsinh:
      return std::asinh(x);
    case UnaryKind::kArctan:
      return std::atan(x);
    case UnaryKind::kArctanh:
      return std::atanh(x);
    case UnaryKind::kCbrt:
      return std::cbrt(x);
    case UnaryKind::kCeil:
      return std::ceil(x);
    case UnaryKind::kCos:
      return std::cos(x);
    case UnaryKind::kCosh:
      return std::cosh(x);
    case UnaryKind::kErf:
      return std::erf(x);
    case UnaryKind::kErfc:
      return std::erfc(x);
    case UnaryKind::kErfinv:
      return static_cast<T>(inverse_erf(static_cast<double>(x)));
    case UnaryKind::kExp2:
      return std::exp2(x);
    case UnaryKind::kExpm1:
      return std::expm1(x);
    case UnaryKind::kFloor:
      return std::floor(x);
    case UnaryKind::kI0:
      return static_cast<T>(bessel_i0(static_cast<double>(x)));
    case UnaryKind::kLog:
      return std::log(x);
    case UnaryKind::kLog10:
      return std::log10(x);
    case UnaryKind::kLog1p:
      return std::log1p(x);
    case UnaryKind::kLog2:
      return std::log2(x);
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
    case UnaryKind::kSinc:
      return static_cast<T>(sinc(static_cast<double>(x)));
    case UnaryKind::kSinh:
      return std::sinh(x);
    case UnaryKind::kSqrt:
      return std::sqrt(x);
    case UnaryKind::kTan:
      return std::tan(x);
    case UnaryKind::kTrunc:
      return std::trunc(x);
  }
  return x;
}

// f'(x).
template <typename T>
T unary_slope(const UnaryFunction& f, T x) {
  switch (f.kind) {
    case UnaryKind::kCeil:
    case UnaryKind::kFloor:
    case UnaryKind::kRound:
    case UnaryKind::kSign:
    case UnaryKind::kTrunc:
      return T(0);
    case UnaryKind::kAbs:
      return sign_of(x);
    case UnaryKind::kArccos:
      return T(-1) / std::sqrt(T(1) - x * x);
    case UnaryKind::kArccosh:
      return T(1) / std::sqrt(x * x - T(1));
    case UnaryKind::kArcsin:
      return T(1) / std::sqrt(T(1) - x * x);
    case UnaryKind::kArcsinh:
      return T(1) / std::sqrt(x * x + T(1));
    case UnaryKind::kArctan:
      return T(1) / (T(1) + x * x);
    case UnaryKind::kArctanh:
      return T(1) / (T(1) - x * x);
    case UnaryKind::kCbrt:
      return T(1) / (T(3) * std::cbrt(x) * std::cbrt(x));
    case UnaryKind::kCos:
      return -std::sin(x);
    case UnaryKind::kCosh:
      return std::sinh(x);
    case UnaryKind::kErf:
      return error_slope(x);
    case UnaryKind::kErfc:
      return -error_slope(x);
    case UnaryKind::kErfinv:
      return T(1) / error_slope(static_cast<T>(inverse_erf(static_cast<double>(x))));
    case UnaryKind::kExp2:
      return static_cast<T>(kLn2) * std::exp2(x);
    case UnaryKind::kExpm1:
      return std::exp(x);
    case UnaryKind::kI0:
      return static_cast<T>(bessel_i1(static_cast<double>(x)));
    case UnaryKind::kLog:
      return T(1) / x;
    case UnaryKind::kLog10:
      return T(1) / (static_cast<T>(kLn10) * x);
    case UnaryKind::kLog1p:
      return T(1) / (T(1) + x);
    case UnaryKind::kLog2:
      return T(1) / (static_cast<T>(kLn2) * x);
    case UnaryKind::kReciprocal:
      return T(-1) / (x * x);
    case UnaryKind::kRsqrt:
      return T(-0.5) / (x * std::sqrt(x));
    case UnaryKind::kSin:
      return std::cos(x);
    case UnaryKind::kSinc:
      return static_cast<T>(sinc_slope(static_cast<double>(x)));
    case UnaryKind::kSinh:
      return std::cosh(x);
    case UnaryKind::kSqrt:
      return T(0.5) / std::sqrt(x);
    case UnaryKind::kTan:
      return T(1) / (std::cos(x) * std::cos(x));
    case UnaryKind::kPower: {
      const T p = static_cast<T>(f.exponent);
      return p == T(0) ? T(0) : p * std::pow(x, p - T(1));
    }
  }
  return T(1);
}

}  // namespace plimsoll::ops
