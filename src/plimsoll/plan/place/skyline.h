#pragma once

// Placement from the bottom up: fills the lowest stretch of the line of what is placed so far.
//
// The best-fit heuristic for dynamic storage allocation: take the lowest stretch of the skyline,
// put in the best buffer that lives within it, and where none does raise the stretch to its lower
// neighbour. It knows no gaps below the line, so it finds packings that the lowest-gap placers miss
// and misses some that they find.
//
//   offset ▲ ┌────┐           the stretch between a and c is lowest: of the buffers that
//          │ │ a  │    ┌───┐  live within it the best one is placed there
//          │ │    │▁▁▁▁│ c │
//          └─┴────┴────┴───┴──▶ time

#include <cstdint>
#include <vector>

namespace plimsoll::plan {

// A buffer to place; times are half-open.
struct Rectangle {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;
};

enum class SkylineRule : uint8_t { kLongest, kLargest, kMostArea };

// Offsets, one per rectangle.
std::vector<int64_t> place_on_skyline(const std::vector<Rectangle>& rectangles, SkylineRule rule);

}  // namespace plimsoll::plan
