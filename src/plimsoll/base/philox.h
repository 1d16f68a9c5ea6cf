#pragma once

// Counter-based random numbers: Philox4x32-10.
//
// A draw is a pure function of (seed, stream, index), so that any slice of a batch, in any order,
// at any memory limit and thread count, draws the same numbers. Nothing is stored between draws.
//
//   key     = seed (64 bits)
//   counter = index / 4 (64 bits), stream (64 bits)          four 32-bit words come out
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>

namespace plimsoll {

using PhiloxBlock = std::array<uint32_t, 4>;

// The bijection itself, ten rounds.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t right = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<uint32_t>(right >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(right),
        static_cast<uint32_t>(left >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(left)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// 24 bits of `word` as a float in [0, 1).
constexpr float uniform_from(uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24f; }

// Two independent standard normal numbers from two words (Box–Muller, computed in double).
inline std::array<float, 2> normal_pair_from(uint32_t first, uint32_t second) {
  // In (0, 1], so that the logarithm is finite.
  const double u = (static_cast<double>(first) + 1.0) * 0x1.0p-32;
  const double angle = 2.0 * std::numbers::pi * (static_cast<double>(second) * 0x1.0p-32);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

// The numbers of one (seed, stream), addressed by index.
class Philox {
 public:
  constexpr Philox(uint64_t seed, uint64_t stream)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        stream_{static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)} {}

  // Words 4 × block … 4 × block + 3.
  constexpr PhiloxBlock block(uint64_t block) const {
    return philox4x32(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream_[0], stream_[1]},
        key_);
  }
  constexpr uint32_t word(uint64_t index) const { return block(index / 4)[index % 4]; }
  constexpr uint64_t word64(uint64_t index) const {
    const PhiloxBlock words = block(index / 2);
    const size_t at = 2 * (index % 2);
    return words[at] | (static_cast<uint64_t>(words[at + 1]) << 32);
  }
  // In [0, 1), 24 bits.
  constexpr float uniform(uint64_t index) const { return uniform_from(word(index)); }
  // Standard normal; index 2k and 2k + 1 are one Box–Muller pair of words 2k and 2k + 1.
  float normal(uint64_t index) const {
    const PhiloxBlock words = block(index / 4);
    const size_t pair = index % 4 / 2 * 2;
    return normal_pair_from(words[pair], words[pair + 1])[index % 2];
  }

  // destination[i] = word, uniform or normal of index first + i; `first` may be any index. Runs of
  // blocks are computed side by side, several times faster than one by one.
  void fill_words(uint64_t first, std::span<uint32_t> destination) const;
  void fill_uniform(uint64_t first, std::span<float> destination) const;
  void fill_normal(uint64_t first, std::span<float> destination) const;

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 2> stream_;
};

// Numbers below `bound` without bias worth naming (bias < bound / 2^64); bound > 0.
constexpr uint64_t below(uint64_t bound, uint64_t word64) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(word64) * bound) >> 64);
}

}  // namespace plimsoll
