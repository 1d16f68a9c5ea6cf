#include "data/rows/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "unit/base/expect_error.h"

namespace plimsoll::data {
namespace {

std::vector<int64_t> order_of(const Permutation& permutation) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < permutation.count(); ++i) rows.push_back(permutation.row_at(i));
  return rows;
}

TEST(Permutation, EveryRowOccursOnce) {
  for (int64_t count : {1, 2, 3, 10, 255, 256, 257, 1000, 4097, 60000}) {
    std::vector<int> seen(static_cast<size_t>(count), 0);
    for (int64_t row : order_of(Permutation(count, 42, 3))) {
      ASSERT_GE(row, 0);
      ASSERT_LT(row, count);
      ++seen[static_cast<size_t>(row)];
    }
    for (int times : seen) ASSERT_EQ(times, 1) << "of " << count;
  }
}

TEST(Permutation, SeedAndEpochGiveTheOrder) {
  const std::vector<int64_t> order = order_of(Permutation(1000, 1, 0));
  EXPECT_EQ(order, order_of(Permutation(1000, 1, 0)));
  EXPECT_NE(order, order_of(Permutation(1000, 2, 0)));
  EXPECT_NE(order, order_of(Permutation(1000, 1, 1)));
}

TEST(Permutation, HugeDatasetsNeedNoTable) {
  const int64_t count = int64_t{1} << 40;
  const Permutation permutation(count, 5, 0);
  EXPECT_LT(permutation.row_at(count - 1), count);
  EXPECT_NE(permutation.row_at(0), permutation.row_at(1));
  EXPECT_LE(sizeof(Permutation), 128u);
}

TEST(Permutation, TheIdentityIsOne) {
  const Permutation permutation(10);
  EXPECT_TRUE(permutation.is_identity());
  EXPECT_EQ(permutation.row_at(7), 7);
  EXPECT_FALSE(Permutation(10, 0, 0).is_identity());
  test::expect_error(ErrorKind::kInternal, "no rows", [] { Permutation(0, 0, 0); });
}

// Each row should be at each position equally often, and neighbours should not stay together.
TEST(Permutation, LooksRandom) {
  constexpr int64_t kCount = 12;
  constexpr int kEpochs = 6000;
  int at[kCount][kCount] = {};
  int neighbours = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<int64_t> order = order_of(Permutation(kCount, 9, epoch));
    for (size_t i = 0; i < kCount; ++i) {
      ++at[i][order[i]];
      if (i > 0 && order[i] == order[i - 1] + 1) ++neighbours;
    }
  }
  const double expected = static_cast<double>(kEpochs) / kCount;
  double chi_square = 0;
  for (const auto& row : at) {
    for (int count : row) chi_square += (count - expected) * (count - expected) / expected;
  }
  // 121 degrees of freedom: mean 121, standard deviation 15.6.
  EXPECT_LT(chi_square, 121 + 5 * 15.6);
  // 11 pairs of positions, each with chance 1/12 of holding such neighbours.
  EXPECT_NEAR(neighbours, kEpochs * 11.0 / 12.0, 5 * std::sqrt(kEpochs * 11.0 / 12.0));
}

TEST(Permutation, LongOrdersKeepNoRuns) {
  const std::vector<int64_t> order = order_of(Permutation(60000, 0, 0));
  int adjacent = 0;
  double displacement = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && std::abs(order[i] - order[i - 1]) == 1) ++adjacent;
    displacement += std::abs(static_cast<double>(order[i]) - static_cast<double>(i));
  }
  EXPECT_LT(adjacent, 20);  // two are expected
  EXPECT_NEAR(displacement / 60000, 20000, 500);
}

}  // namespace
}  // namespace plimsoll::data
