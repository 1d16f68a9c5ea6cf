#include "plan/place/shelf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace plimsoll::plan {
namespace {

struct Placed {
  int64_t offset = 0;
  Rectangle rectangle;
};

// Looks at all that is placed, one by one.
int64_t find_gap(const std::vector<Placed>& placed, const Rectangle& rectangle) {
  int64_t offset = 0;
  for (const Placed& other : placed) {
    if (other.offset >= offset + rectangle.bytes) break;
    const bool together =
        other.rectangle.begin < rectangle.end && rectangle.begin < other.rectangle.end;
    if (together) offset = std::max(offset, other.offset + other.rectangle.bytes);
  }
  return offset;
}

TEST(Shelf, PutsPiecesWhereAPlainSearchDoesAndCountsAsMuchWork) {
  std::mt19937 random(1);
  Shelf shelf;
  for (int round = 0; round < 6; ++round) {
    shelf.clear();
    std::vector<Placed> placed;
    const int64_t longest = round % 2 == 0 ? 10 : 400;
    for (int k = 0; k < 700; ++k) {
      Rectangle rectangle;
      rectangle.begin = static_cast<int64_t>(random() % 400);
      rectangle.end =
          rectangle.begin + static_cast<int64_t>(random() % static_cast<uint32_t>(longest));
      rectangle.bytes = 64 * static_cast<int64_t>(random() % 50);
      const int64_t offset = find_gap(placed, rectangle);
      const auto below = std::ranges::count_if(
          placed, [&](const Placed& other) { return other.offset < offset + rectangle.bytes; });
      ASSERT_EQ(shelf.put(rectangle), offset) << round << ", " << k;
      ASSERT_EQ(shelf.looks(), below + 1) << round << ", " << k;
      const auto at = std::ranges::upper_bound(placed, offset, {}, &Placed::offset);
      placed.insert(at, {offset, rectangle});
    }
  }
}

}  // namespace
}  // namespace plimsoll::plan
