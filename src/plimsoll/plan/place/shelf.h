#pragma once

// What is placed so far, by rising offset, and the lowest gap for one more buffer.
//
// The lowest gap is found by looking at everything placed below its top, most of which lives at
// another time. So the times stand in blocks of fixed length, apart from the offsets: a block is
// compared with a buffer's time in a few vector instructions, and only what lives with it is looked
// at one by one. Blocks that are full are cut in two.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/place/skyline.h"

namespace plimsoll::plan {

class Shelf {
 public:
  void clear();
  // Puts the rectangle into the lowest gap that holds it; returns its offset.
  int64_t put(const Rectangle& rectangle);
  // What lay below the top of the rectangle that was put last, and 1: a measure of work.
  int64_t looks() const { return looks_; }

 private:
  static constexpr size_t kBlock = 64;
  struct Block {
    std::array<int32_t, kBlock> begin;  // of places that are empty: never
    std::array<int32_t, kBlock> end;
    std::array<int64_t, kBlock> offset;
    std::array<int64_t, kBlock> top;
    size_t size = 0;
  };

  Block& add_block(size_t at);
  // Looks at the block's rectangles that live with this one, in order, and raises `offset` above
  // them.
  static void raise_above(const Block& block, const Rectangle& rectangle, int64_t& offset);
  void insert(const Rectangle& rectangle, int64_t offset);

  std::vector<Block> pool_;
  size_t used_ = 0;              // of the pool
  std::vector<uint32_t> order_;  // blocks by rising offset
  int64_t looks_ = 0;
};

}  // namespace plimsoll::plan
