#pragma once

// Which of eight lanes are meant, lowest first: byte i of entry b is the number of the i-th bit of
// b, and zero after the last.

#include <array>
#include <cstdint>

namespace plimsoll::backend::cpu {

inline constexpr std::array<uint64_t, 256> kLaneOrder = [] {
  std::array<uint64_t, 256> order{};
  for (uint64_t bits = 0; bits < order.size(); ++bits) {
    int place = 0;
    for (uint64_t lane = 0; lane < 8; ++lane) {
      if ((bits >> lane & 1) != 0) order[bits] |= lane << (8 * place++);
    }
  }
  return order;
}();

}  // namespace plimsoll::backend::cpu
