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
  kFloorQuotient,
  kFloorRemainder,
  kGcd,
  kHash,
  kLcm,
  kLeftShift,
  kRightShift,
  kUnsignedRemainder,
};

// Reads {kind}. Throws kModel.
IntegerKind read_integer_kind(const graph::Attributes& attributes);

// |x|; of the lowest number of a signed type its own bits.
template <typename T>
std::make_unsigned_t<T> magnitude(T x) {
  using U = std::make_unsigned_t<T>;
  return x < T(0) ? static_cast<U>(U(0) - static_cast<U>(x)) : static_cast<U>(x);
}

// What is left of a when it is divided by b, of b's sign; 0 where b is 0.
template <typename T>
T floor_remainder(T a, T b) {
  if (b == T(0) || (std::is_signed_v<T> && b == T(-1))) return T(0);
  const T rest = static_cast<T>(a % b);
  return rest != T(0) && (rest < T(0)) != (b < T(0)) ? static_cast<T>(rest + b) : rest;
}

// Two fingerprints as one, as TensorFlow joins those of a crossed feature's parts.
inline uint64_t joined_hash(uint64_t first, uint64_t second) {
  constexpr uint64_t kOdd = 0xc6a4a7935bd1e995;
  const auto mixed = [](uint64_t x) { return x ^ (x >> 47); };
  uint64_t hash = first ^ kOdd;
  hash ^= mixed(second * kOdd) * kOdd;
  hash *= kOdd;
  hash = mixed(hash) * kOdd;
  return mixed(hash);
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
    case IntegerKind::kFloorQuotient: {
      if (b == T(0)) return T(0);
      const U apart = static_cast<U>(static_cast<U>(a) - static_cast<U>(floor_remainder(a, b)));
      if (std::is_signed_v<T> && b == T(-1)) return static_cast<T>(U(0) - static_cast<U>(a));
      return static_cast<T>(static_cast<T>(apart) / b);
    }
    case IntegerKind::kFloorRemainder:
      return floor_remainder(a, b);
    case IntegerKind::kHash:
      return static_cast<T>(joined_hash(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    case IntegerKind::kUnsignedRemainder:
      return b == T(0) ? T(0) : static_cast<T>(static_cast<U>(a) % static_cast<U>(b));
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
