#include "data/rows/permutation.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"

namespace plimsoll::data {

Permutation::Permutation(int64_t count, uint64_t seed, int64_t epoch)
    : count_(count), shuffled_(true) {
  PLIMSOLL_CHECK(count > 0, "an order of no rows");
  constexpr int kMinBits = 8;
  const int bits =
      std::max(kMinBits, static_cast<int>(std::bit_width(static_cast<uint64_t>(count) - 1)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  const uint64_t stream =
      Fingerprint().add("shuffled rows").add(static_cast<uint64_t>(epoch)).value();
  const Philox source(seed, stream);
  for (size_t i = 0; i < keys_.size(); ++i) keys_[i] = source.word64(i);
}

uint64_t Permutation::step(uint64_t value) const {
  // The halves may differ by one bit; they change places after every round, widths included.
  int left_bits = left_bits_;
  int right_bits = right_bits_;
  uint64_t left = value >> right_bits;
  uint64_t right = value & ((uint64_t{1} << right_bits) - 1);
  for (const uint64_t key : keys_) {
    const uint64_t mask = (uint64_t{1} << left_bits) - 1;
    const uint64_t mixed = left ^ (mix_bits(right + key) & mask);
    left = right;
    right = mixed;
    std::swap(left_bits, right_bits);
  }
  return (left << right_bits) | right;
}

int64_t Permutation::row_at(int64_t position) const {
  if (!shuffled_) return position;
  auto value = static_cast<uint64_t>(position);
  do {
    value = step(value);
  } while (value >= static_cast<uint64_t>(count_));
  return static_cast<int64_t>(value);
}

}  // namespace plimsoll::data
