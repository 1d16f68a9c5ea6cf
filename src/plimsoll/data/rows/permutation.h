#pragma once

// A shuffled order of rows without a table.
//
// The order is a keyed bijection of [0, n): a Feistel network over the smallest power of two that
// is at least n (and at least 256), walked again while it leads outside. It takes no memory, any
// position is found on its own, and the same seed and epoch give the same order everywhere.
//
//   position → (left, right) → eight rounds of left ^= f(right, key), halves swapped → row
//   row ≥ n: the row becomes the position, once more (at most twice on average for large n)

#include <array>
#include <cstdint>

namespace plimsoll::data {

class Permutation {
 public:
  // The identity.
  explicit Permutation(int64_t count) : count_(count) {}
  // A pseudo-random order for an epoch.
  Permutation(int64_t count, uint64_t seed, int64_t epoch);

  int64_t count() const { return count_; }
  bool is_identity() const { return !shuffled_; }
  // Which row stands at `position`; both in [0, count).
  int64_t row_at(int64_t position) const;

 private:
  static constexpr int kRounds = 8;

  int64_t count_ = 0;
  bool shuffled_ = false;
  int left_bits_ = 0;
  int right_bits_ = 0;
  std::array<uint64_t, kRounds> keys_ = {};

  uint64_t step(uint64_t value) const;
};

}  // namespace plimsoll::data
