#include "data/rows/row_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "unit/base/expect_error.h"

namespace plimsoll::data {
namespace {

std::vector<int64_t> all(const RowOrder& order, int64_t count) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i) rows.push_back(order.row_at(i));
  return rows;
}

bool is_permutation_of_all(std::vector<int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

TEST(RowOrder, EveryRowOnce) {
  for (const int64_t count : {1, 2, 7, 100, 1000, 4099}) {
    for (const int64_t row_bytes : {1 << 20, 100'000, 4096}) {
      for (uint64_t seed = 0; seed < 6; ++seed) {
        const RowOrder order(Shuffle::kBlock, count, row_bytes, seed, 2);
        EXPECT_TRUE(is_permutation_of_all(all(order, count))) << count << " " << row_bytes;
      }
    }
  }
  EXPECT_EQ(all(RowOrder(4), 4), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(is_permutation_of_all(all(RowOrder(Shuffle::kFull, 77, 4, 1, 1), 77)));
}

TEST(RowOrder, AGroupTouchesEightBlocksAlone) {
  constexpr int64_t kCount = 20'011;
  constexpr int64_t kRowBytes = 10'000;  // 105 rows a block
  const RowOrder order(Shuffle::kBlock, kCount, kRowBytes, 3, 0);
  int64_t groups = 0;
  for (int64_t position = 0; position < kCount;) {
    const int64_t group = order.group_of(position);
    EXPECT_EQ(group, groups++);
    std::set<int64_t> blocks;
    int64_t rows = 0;
    for (; position < kCount && order.group_of(position) == group; ++position, ++rows) {
      blocks.insert(order.row_at(position) / 105);
    }
    int64_t told = 0;
    for (int64_t i = 0; i < order.blocks_in(group); ++i) {
      const RowOrder::Rows block = order.block(group, i);
      EXPECT_EQ(blocks.count(block.first / 105), 1u);
      told += block.count;
    }
    EXPECT_EQ(static_cast<int64_t>(blocks.size()), order.blocks_in(group));
    EXPECT_EQ(told, rows);
  }
  EXPECT_EQ(groups, order.group_count());
}

TEST(RowOrder, DependsOnSeedAndEpochAndMixes) {
  const auto rows = [](uint64_t seed, int64_t epoch) {
    return all(RowOrder(Shuffle::kBlock, 5000, 4000, seed, epoch), 5000);
  };
  EXPECT_EQ(rows(1, 0), rows(1, 0));
  EXPECT_NE(rows(1, 0), rows(2, 0));
  EXPECT_NE(rows(1, 0), rows(1, 1));
  const std::vector<int64_t> order = rows(1, 0);
  int64_t neighbours = 0;
  for (size_t i = 1; i < order.size(); ++i) neighbours += order[i] == order[i - 1] + 1;
  EXPECT_LT(neighbours, 20);  // about one in two thousand
}

TEST(RowOrder, Words) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kBlock, Shuffle::kFull}) {
    EXPECT_EQ(parse_shuffle(to_string(shuffle)), shuffle);
  }
  test::expect_error(ErrorKind::kConfig, "Did you mean \"block\"?",
                     [] { parse_shuffle("blocks"); });
}

}  // namespace
}  // namespace plimsoll::data
