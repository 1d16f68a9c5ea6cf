#include "plan/place/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "unit/base/allocation_counter.h"

namespace plimsoll::plan {
namespace {

constexpr int64_t kPlenty = 10'000'000;

bool meet(const Rectangle& a, const Rectangle& b) { return a.begin < b.end && b.begin < a.end; }

void expect_sound(const std::vector<Rectangle>& rectangles, int64_t capacity,
                  const PackResult& result) {
  ASSERT_EQ(result.offsets.size(), rectangles.size());
  for (size_t i = 0; i < rectangles.size(); ++i) {
    EXPECT_GE(result.offsets[i], 0);
    EXPECT_LE(result.offsets[i] + rectangles[i].bytes, capacity);
    for (size_t j = 0; j < i; ++j) {
      if (!meet(rectangles[i], rectangles[j])) continue;
      EXPECT_TRUE(result.offsets[i] + rectangles[i].bytes <= result.offsets[j] ||
                  result.offsets[j] + rectangles[j].bytes <= result.offsets[i])
          << i << " and " << j;
    }
  }
}

// In every order, each on top of all that it meets: one of the orders is best.
int64_t least_capacity(const std::vector<Rectangle>& rectangles) {
  std::vector<size_t> order(rectangles.size());
  std::iota(order.begin(), order.end(), 0u);
  int64_t best = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> tops(rectangles.size());
    int64_t region = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      int64_t offset = 0;
      for (size_t m = 0; m < k; ++m) {
        if (meet(rectangles[order[k]], rectangles[order[m]]))
          offset = std::max(offset, tops[order[m]]);
      }
      tops[order[k]] = offset + rectangles[order[k]].bytes;
      region = std::max(region, tops[order[k]]);
    }
    best = std::min(best, region);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

int64_t load_of(const std::vector<Rectangle>& rectangles) {
  int64_t load = 0;
  for (const Rectangle& at : rectangles) {
    int64_t alive = 0;
    for (const Rectangle& rectangle : rectangles) {
      if (rectangle.begin <= at.begin && at.begin < rectangle.end) alive += rectangle.bytes;
    }
    load = std::max(load, alive);
  }
  return load;
}

std::vector<Rectangle> random_rectangles(size_t count, int64_t time, std::mt19937& random) {
  std::vector<Rectangle> rectangles;
  for (size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<int64_t>(random() % static_cast<uint32_t>(time));
    const auto length = static_cast<int64_t>(1 + random() % 5);
    rectangles.push_back({begin, begin + length, static_cast<int64_t>(1 + random() % 9)});
  }
  return rectangles;
}

void expect_least(const std::vector<Rectangle>& rectangles, int64_t least) {
  const PackResult packed = pack_within(rectangles, least, kPlenty);
  ASSERT_EQ(packed.verdict, PackVerdict::kPacked);
  expect_sound(rectangles, least, packed);
  EXPECT_EQ(pack_within(rectangles, least - 1, kPlenty).verdict, PackVerdict::kImpossible);
}

TEST(PackTest, AgreesWithAllOrdersOnSmallInstances) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::vector<Rectangle> rectangles = random_rectangles(3 + random() % 5, 8, random);
    expect_least(rectangles, least_capacity(rectangles));
  }
}

// Rare among small ones: the load does not tell what is needed.
TEST(PackTest, AgreesWithAllOrdersWhereTheLoadIsNotEnough) {
  const std::vector<std::vector<Rectangle>> instances = {
      {{6, 8, 2}, {7, 8, 2}, {3, 6, 1}, {4, 5, 1}, {1, 4, 2}, {3, 7, 1}, {4, 7, 1}, {1, 3, 2}},
      {{5, 9, 3},
       {2, 5, 3},
       {4, 7, 2},
       {5, 8, 2},
       {1, 3, 2},
       {7, 10, 3},
       {3, 5, 1},
       {0, 4, 3},
       {3, 7, 1}},
      {{1, 5, 2},
       {5, 9, 1},
       {3, 4, 1},
       {0, 1, 4},
       {3, 7, 2},
       {4, 6, 2},
       {7, 10, 4},
       {0, 4, 4},
       {5, 8, 4}}};
  for (const std::vector<Rectangle>& rectangles : instances) {
    const int64_t least = least_capacity(rectangles);
    EXPECT_GT(least, load_of(rectangles));
    expect_least(rectangles, least);
  }
}

TEST(PackTest, FindsWhatWasCutFromARectangle) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    // Guillotine cuts of 64 × 64 leave no waste at all.
    std::vector<Rectangle> rectangles = {{0, 64, 64}};
    while (rectangles.size() < 40) {
      Rectangle& rectangle = rectangles[random() % rectangles.size()];
      const int64_t width = rectangle.end - rectangle.begin;
      if (random() % 2 == 0 && width > 1) {
        const int64_t at = rectangle.begin + 1 + static_cast<int64_t>(random()) % (width - 1);
        const Rectangle right{at, rectangle.end, rectangle.bytes};
        rectangle.end = at;
        rectangles.push_back(right);
      } else if (rectangle.bytes > 1) {
        const int64_t part = 1 + static_cast<int64_t>(random()) % (rectangle.bytes - 1);
        const Rectangle upper{rectangle.begin, rectangle.end, rectangle.bytes - part};
        rectangle.bytes = part;
        rectangles.push_back(upper);
      }
    }
    const PackResult packed = pack_within(rectangles, 64, 100'000'000);
    ASSERT_EQ(packed.verdict, PackVerdict::kPacked) << round;
    expect_sound(rectangles, 64, packed);
    EXPECT_EQ(packed.offsets, pack_within(rectangles, 64, 100'000'000).offsets);
  }
}

TEST(PackTest, GivesUpWhenTheEffortIsSpent) {
  std::mt19937 random(5);
  const std::vector<Rectangle> rectangles = random_rectangles(60, 30, random);
  const PackResult result = pack_within(rectangles, load_of(rectangles), 100);
  EXPECT_EQ(result.verdict, PackVerdict::kSpent);
  EXPECT_TRUE(result.offsets.empty());
  EXPECT_GE(result.work, 100);
  EXPECT_LT(result.work, 1000);
}

// As in training: what comes first lives longest, and all of it at once in the middle.
std::vector<Rectangle> nested_rectangles(int64_t count, std::mt19937& random) {
  std::vector<Rectangle> rectangles;
  for (int64_t i = 0; i < count; ++i) {
    const auto shift = static_cast<int64_t>(random() % 9);
    rectangles.push_back(
        {i + shift, 2 * count - i + shift, 64 * static_cast<int64_t>(1 + random() % 9)});
  }
  return rectangles;
}

TEST(PackTest, HoldsNoMoreThanItsRoomHoweverManyLiveAtOnce) {
  std::mt19937 random(11);
  for (const int64_t count : {20, 300, 500, 1000, 2000, 5000}) {
    SCOPED_TRACE(std::to_string(count) + " rectangles");
    const std::vector<Rectangle> nested = nested_rectangles(count, random);
    const std::vector<Rectangle> apart =
        random_rectangles(static_cast<size_t>(count), count, random);
    for (const std::vector<Rectangle>& rectangles : {nested, apart}) {
      const int64_t most = kPackRoom.count() + 150 * count;
      EXPECT_LE(test::peak_of([&] { pack_within(rectangles, load_of(rectangles), kPlenty); }),
                most);
    }
  }
}

TEST(PackTest, NothingAndWhatHasNoBytesFitsAnywhere) {
  EXPECT_EQ(pack_within({}, 0, kPlenty).verdict, PackVerdict::kPacked);
  const PackResult result = pack_within({{0, 4, 8}, {1, 2, 0}, {3, 3, 8}}, 8, kPlenty);
  EXPECT_EQ(result.verdict, PackVerdict::kPacked);
  EXPECT_EQ(result.offsets, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(pack_within({{0, 1, 2}}, 1, kPlenty).verdict, PackVerdict::kImpossible);
}

}  // namespace
}  // namespace plimsoll::plan
