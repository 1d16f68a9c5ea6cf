#pragma once

// Functions of two integers, as every backend computes them. Nothing overflows: all is done in the
// unsigned type of as many bits.

#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>

#include "graph/attributes.h"

namespace plimsoll::ops {

enum class IntegerKind : uint8_t {
  kBitAnd,
  kBitOr,
  kBitXor,
  kGcd,
  kLcm,
  kLeftShift,
  kRightShift,
};

// Reads {kind}. Throws kModel.
IntegerKind read_integer_kind(const graph::Attributes& attributes);

// |x|; of the lowest number of a signed type its own bits.
template <typename T>
std::make_unsigned_t<T> magnitude(T x) {
  using U = std::make_unsigned_t<T>;
  return x < T(0) ? static_cast<U>(U(0) - static_cast<U>(x)) : static_cast<U>(x);
}

// f(a, b).
template <typename T>
T integer_value(IntegerKind kind, T a, T b) {
  using U = std::make_unsigned_t<T>;
  constexpr int kBits = std::numeric_limits<U>::digits;
  const int by = static_cast<int>(std::clamp<T>(b, T(0), T(kBits - 1)));
  switch (kind) {
    case IntegerKind::kBitAnd:
      return static_cast<T>(a & b);
    case IntegerKind::kBitOr:
      return static_cast<T>(a | b);
    case IntegerKind::kBitXor:
      return static_cast<T>(a ^ b);
    case IntegerKind::kGcd:
      return static_cast<T>(std::gcd(magnitude(a), magnitude(b)));
    case IntegerKind::kLcm: {
      const U left = magnitude(a);
      const U right = magnitude(b);
      if (left == 0 || right == 0) return T(0);
      return static_cast<T>(static_cast<uint64_t>(left) * (right / std::gcd(left, right)));
    }
    case IntegerKind::kLeftShift:
      return static_cast<T>(static_cast<uint64_t>(static_cast<U>(a)) << by);
    case IntegerKind::kRightShift:
      return static_cast<T>(a >> by);
  }
  return a;
}

}  // namespace plimsoll::ops
