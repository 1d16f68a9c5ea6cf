#pragma once

// A wide array beside a small one that repeats along some of its dimensions, in as few dimensions
// as that takes: neighbours of one kind are one, and those of extent 1 are none. Kinds alternate.
//
//   (8, 1, 1, 96) beside (8, 56, 56, 96)   →   8 kept, 3136 repeated, 96 kept

#include <array>
#include <cstdint>
#include <span>

namespace plimsoll::backend::cpu {

class Stretch {
 public:
  static constexpr int kMostRank = 8;

  // Both dense, the same dimensions in the same places; the small one's are the wide one's or 1.
  Stretch(std::span<const int64_t> wide, std::span<const int64_t> small) {
    for (size_t d = 0; d < wide.size(); ++d) add(wide[d], small[d] == wide[d]);
    if (rank_ == 0) add_new(1, true);
  }

  int rank() const { return rank_; }
  int64_t extent(int d) const { return extents_[at(d)]; }
  bool kept(int d) const { return kept_[at(d)]; }
  // Elements from one index to the next; 0 in the small one where it repeats.
  int64_t wide_stride(int d) const { return product_from(d + 1, false); }
  int64_t small_stride(int d) const { return kept(d) ? product_from(d + 1, true) : 0; }
  // What lies side by side is the last dimension.
  int64_t run() const { return extent(rank_ - 1); }
  bool run_kept() const { return kept(rank_ - 1); }
  int64_t wide_count() const { return product_from(0, false); }
  int64_t small_count() const { return product_from(0, true); }
  // The first element of row `row` of runs in the small array.
  int64_t small_row(int64_t row) const {
    int64_t offset = 0;
    for (int d = rank_ - 2; d >= 0; --d) {
      offset += row % extent(d) * small_stride(d);
      row /= extent(d);
    }
    return offset;
  }

 private:
  static size_t at(int d) { return static_cast<size_t>(d); }
  void add(int64_t extent, bool kept) {
    if (extent == 1) return;
    if (rank_ > 0 && kept_[at(rank_ - 1)] == kept) {
      extents_[at(rank_ - 1)] *= extent;
    } else {
      add_new(extent, kept);
    }
  }
  void add_new(int64_t extent, bool kept) {
    extents_[at(rank_)] = extent;
    kept_[at(rank_)] = kept;
    ++rank_;
  }
  int64_t product_from(int first, bool only_kept) const {
    int64_t count = 1;
    for (int d = first; d < rank_; ++d) count *= only_kept && !kept(d) ? 1 : extent(d);
    return count;
  }

  int rank_ = 0;
  std::array<int64_t, kMostRank> extents_{};
  std::array<bool, kMostRank> kept_{};
};

}  // namespace plimsoll::backend::cpu
