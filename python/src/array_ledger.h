#pragma once

// Which arrays are alive, and by which line of the program each was made.
//
// Arrays of kLarge and more are kept one by one, smaller ones as a sum. Lines are numbers here:
// whoever knows what they stand for gives them (arrays.cpp). What was held at the highest is kept
// too: it is copied when the first array is freed after a new high, so that growing costs nothing.
//
// Every function may be called by several threads at once, but for the sum of small arrays: calls
// hold Python's lock, and without it (which no NumPy does today) the sum may be off.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace plimsoll::python {

constexpr size_t kLarge = 64 << 10;

struct Held {
  int32_t line = 0;
  int64_t bytes = 0;
  int64_t arrays = 0;
  int64_t largest = 0;  // bytes of one array
};

struct Block {
  const void* begin = nullptr;
  int64_t bytes = 0;
  int32_t line = 0;
};

class ArrayLedger {
 public:
  void add_small(int64_t bytes) {
    small_.store(small_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
  int64_t small() const { return small_.load(std::memory_order_relaxed); }

  void add(const void* begin, size_t bytes, int32_t line);
  // The size that was added; 0 where there is no such array.
  size_t remove(const void* begin);

  // Of arrays that may not have been filled yet, an upper bound; and the true number, which looks
  // at the pages of each of them.
  int64_t unfilled_at_most() const;
  int64_t measure_unfilled();

  // By lines, the most bytes first.
  std::vector<Held> held() const;
  std::vector<Held> held_at_peak() const;
  int64_t peak() const;  // bytes of large arrays
  // The largest ones.
  std::vector<Block> largest(size_t most) const;

 private:
  struct Array {
    int64_t bytes = 0;
    int32_t line = 0;
    bool is_filled = false;
  };
  void copy_peak();
  void take_off(const Array& array);

  std::atomic<int64_t> small_{0};
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Array> arrays_;
  std::unordered_map<int32_t, Held> lines_;
  std::vector<Held> at_peak_;
  int64_t total_ = 0;
  int64_t peak_ = 0;
  int64_t unfilled_ = 0;
  bool peak_is_now_ = false;  // at_peak_ is to be copied before anything is freed
};

}  // namespace plimsoll::python
