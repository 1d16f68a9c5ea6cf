#include "planning/batch_search.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::planning {
namespace {

constexpr int64_t kMost = int64_t{1} << 20;

TEST(BatchSearch, FindsTheLargestThatFits) {
  for (int64_t largest : {1, 2, 3, 31, 32, 33, 63, 64, 65, 1000, 131071, 524288}) {
    for (int64_t known : {int64_t{0}, int64_t{1}, largest}) {
      EXPECT_EQ(find_largest_batch(known, kMost, [&](int64_t batch) { return batch <= largest; }),
                largest)
          << known;
    }
  }
}

TEST(BatchSearch, IsNoneWhereNothingFitsOrAllDoes) {
  const auto never = [](int64_t) { return false; };
  const auto always = [](int64_t) { return true; };
  EXPECT_EQ(find_largest_batch(0, kMost, never), std::nullopt);
  for (int64_t known : {int64_t{0}, int64_t{32}, kMost / 2, kMost / 2 + 1, kMost}) {
    EXPECT_EQ(find_largest_batch(known, kMost, always), std::nullopt);
  }
}

TEST(BatchSearch, AsksTwiceWhereTheBatchDoesNotBind) {
  std::vector<int64_t> asked;
  const auto always = [&](int64_t batch) {
    asked.push_back(batch);
    return true;
  };
  EXPECT_EQ(find_largest_batch(32, kMost, always), std::nullopt);
  EXPECT_EQ(asked, (std::vector<int64_t>{64, kMost}));
}

TEST(BatchSearch, AsksNoMoreThanOnceForTheLargestOfAll) {
  int64_t asked = 0;
  const auto fits = [&](int64_t batch) {
    ++asked;
    return batch <= 70;
  };
  EXPECT_EQ(find_largest_batch(32, kMost, fits), 70);
  EXPECT_EQ(asked, 3 + 6);  // 64, the largest, 128, and halving 64
}

}  // namespace
}  // namespace plimsoll::planning
