#include "graph/lanes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::graph {
namespace {

// How the sums of so many lanes are added up, as text.
std::string tree_of(int64_t lanes) {
  std::map<int64_t, std::string> partials;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    EXPECT_LT(partial_of(lane), partial_count(lanes));
    partials[partial_of(lane)] = std::to_string(lane);
    for_each_join(lane, lanes, [&](const LaneJoin& join) {
      partials[join.from - 1] = "(" + partials[join.from - 1] + "+" + partials[join.from] + ")";
    });
  }
  return partials[0];
}

TEST(Lanes, AreAddedUpInABalancedTree) {
  EXPECT_EQ(tree_of(1), "0");
  EXPECT_EQ(tree_of(2), "(0+1)");
  EXPECT_EQ(tree_of(4), "((0+1)+(2+3))");
  EXPECT_EQ(tree_of(8), "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST(Lanes, EmptyOnesHaveNoPlaceInTheTree) {
  EXPECT_EQ(tree_of(3), "((0+1)+2)");
  EXPECT_EQ(tree_of(5), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(tree_of(6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(tree_of(7), "(((0+1)+(2+3))+((4+5)+6))");
}

// What some machines fold, each an aligned run of the lanes, and then join, is the same tree.
TEST(Lanes, ASubtreeIsTheTreeOfItsLanes) {
  for (int64_t half : {1, 2, 4, 8}) {
    const std::string left = tree_of(half);
    const std::string both = tree_of(2 * half);
    EXPECT_EQ(both.substr(1, left.size()), left);
  }
}

TEST(Lanes, JoinsKnowTheirLanes) {
  for (int64_t lanes = 1; lanes <= 40; ++lanes) {
    std::map<int64_t, std::pair<int64_t, int64_t>> partials;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      partials[partial_of(lane)] = {lane, lane + 1};
      for_each_join(lane, lanes, [&](const LaneJoin& join) {
        EXPECT_EQ(partials[join.from - 1], std::pair(join.first, join.middle));
        EXPECT_EQ(partials[join.from], std::pair(join.middle, join.end));
        partials[join.from - 1] = {join.first, join.end};
      });
    }
    EXPECT_EQ(partials[0], std::pair(int64_t{0}, lanes));
  }
}

TEST(Lanes, HaveEquallyManySamplesButTheLast) {
  EXPECT_EQ(lane_length(64, 1), 0);
  EXPECT_EQ(lane_length(64, 4), 16);
  EXPECT_EQ(lane_length(19, 4), 5);
  EXPECT_EQ(lane_length(1, 4), 0);
  EXPECT_EQ(filled_lanes(64, 16), 4);
  EXPECT_EQ(filled_lanes(19, 5), 4);
  // Two samples in four lanes: two are empty.
  EXPECT_EQ(lane_length(2, 4), 1);
  EXPECT_EQ(filled_lanes(2, 1), 2);
  EXPECT_EQ(filled_lanes(9, lane_length(9, 8)), 5);
}

TEST(Lanes, BlocksHaveFewLengths) {
  using Lengths = std::vector<int64_t>;
  EXPECT_EQ(block_lengths(19, 0, 4), (Lengths{4, 3}));
  EXPECT_EQ(block_lengths(16, 0, 4), (Lengths{4}));
  EXPECT_EQ(block_lengths(3, 0, 4), (Lengths{3}));
  EXPECT_EQ(block_lengths(64, 16, 4), (Lengths{4}));
  EXPECT_EQ(block_lengths(64, 16, 64), (Lengths{16}));
  EXPECT_EQ(block_lengths(19, 5, 4), (Lengths{4, 1}));
  EXPECT_EQ(block_lengths(100, 13, 4), (Lengths{4, 1}));
  EXPECT_EQ(block_lengths(100, 13, 8), (Lengths{8, 5, 1}));
}

TEST(Lanes, PartialSumsBeginAtCacheLines) {
  EXPECT_EQ(partial_stride(Bytes(40)), Bytes(64));
  EXPECT_EQ(bytes_of_partials(Bytes(40), 1), Bytes(40));
  EXPECT_EQ(bytes_of_partials(Bytes(40), 3), Bytes(168));
}

TEST(Lanes, AnAxisIsCutWhereItHasSamplesAndMayBeCut) {
  EXPECT_EQ(lane_rows({.name = "batch", .kind = AxisKind::kMap, .extent = Dim::batch()}, 5), 5);
  EXPECT_EQ(lane_rows({.name = "rows", .kind = AxisKind::kReduce, .extent = Dim::batch(4)}, 5), 20);
  EXPECT_EQ(lane_rows({.name = "batch", .kind = AxisKind::kWhole, .extent = Dim::batch()}, 5), 0);
  EXPECT_EQ(lane_rows({.name = "units", .kind = AxisKind::kMap, .extent = Dim::constant(8)}, 5), 0);
}

}  // namespace
}  // namespace plimsoll::graph
