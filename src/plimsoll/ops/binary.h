#pragma once

// Functions of two numbers beyond arithmetic, and their slopes, as every backend computes them.

#include <cmath>

#include "graph/attributes.h"
#include "ops/unary.h"

namespace plimsoll::ops {

enum class BinaryKind : uint8_t {
  kArctan2,
  kFloorDivide,
  kFloorMod,  // the sign of the divisor, as Python's %
  kFmod,      // the sign of the dividend
  kHypot,
  kLogAddExp,
  kLogAddExp2,
  kPower,
};

// Reads {kind}. Throws kModel.
BinaryKind read_binary(const graph::Attributes& attributes);

// a, in units of which log(eᵃ + eᵇ) is taken: ln 2 turns powers of 2 into those of e.
template <typename T>
T log_add(T a, T b, T unit) {
  const T apart = a - b;
  if (apart != apart) return a + b;
  return std::max(a, b) + std::log1p(std::exp(-std::abs(apart) * unit)) / unit;
}

template <typename T>
T floor_mod(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != T(0) && (rest < T(0)) != (b < T(0)) ? rest + b : rest;
}

// f(a, b).
template <typename T>
T binary_value(BinaryKind kind, T a, T b) {
  switch (kind) {
    case BinaryKind::kArctan2:
      return std::atan2(a, b);
    case BinaryKind::kFloorDivide:
      return std::floor(a / b);
    case BinaryKind::kFloorMod:
      return floor_mod(a, b);
    case BinaryKind::kFmod:
      return std::fmod(a, b);
    case BinaryKind::kHypot:
      return std::hypot(a, b);
    case BinaryKind::kLogAddExp:
      return log_add(a, b, T(1));
    case BinaryKind::kLogAddExp2:
      return log_add(a, b, static_cast<T>(kLn2));
    case BinaryKind::kPower:
      return std::pow(a, b);
  }
  return a;
}

// 1 / (1 + e⁻ˣ)
template <typename T>
T share_of(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

// ∂f/∂a.
template <typename T>
T binary_left_slope(BinaryKind kind, T a, T b) {
  switch (kind) {
    case BinaryKind::kArctan2:
      return b / (a * a + b * b);
    case BinaryKind::kFloorDivide:
      return T(0);
    case BinaryKind::kFloorMod:
    case BinaryKind::kFmod:
      return T(1);
    case BinaryKind::kHypot: {
      const T size = std::hypot(a, b);
      return size == T(0) ? T(0) : a / size;
    }
    case BinaryKind::kLogAddExp:
      return share_of(a - b);
    case BinaryKind::kLogAddExp2:
      return share_of((a - b) * static_cast<T>(kLn2));
    case BinaryKind::kPower:
      return b == T(0) ? T(0) : b * std::pow(a, b - T(1));
  }
  return T(0);
}

// ∂f/∂b. Of a power with a base of 0 or less it is 0, as TensorFlow has it.
template <typename T>
T binary_right_slope(BinaryKind kind, T a, T b) {
  switch (kind) {
    case BinaryKind::kArctan2:
      return -a / (a * a + b * b);
    case BinaryKind::kFloorDivide:
      return T(0);
    case BinaryKind::kFloorMod:
      return -std::floor(a / b);
    case BinaryKind::kFmod:
      return -std::trunc(a / b);
    case BinaryKind::kHypot:
      return binary_left_slope(kind, b, a);
    case BinaryKind::kLogAddExp:
    case BinaryKind::kLogAddExp2:
      return binary_left_slope(kind, b, a);
    case BinaryKind::kPower:
      return a > T(0) ? std::pow(a, b) * std::log(a) : T(0);
  }
  return T(0);
}

}  // namespace plimsoll::ops
