#pragma once

// bfloat16: the upper half of a float32, rounded to nearest, ties to even.
//
// A number of that type is kept and moved as its 16 bits; nobody computes in it. What is not here:
// loops over arrays (backend/cpu/product/widened.h).

#include <bit>
#include <cstdint>

namespace plimsoll {

constexpr float float_of_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// NaN stays one; what is beyond the largest bfloat16 becomes infinite.
constexpr uint16_t bfloat16_of_float(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded);
}

}  // namespace plimsoll
