#include "layers/training/index_bounds.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace plimsoll::layers {
namespace {

using graph::GraphBuilder;
using graph::ValueId;
using Ints = std::vector<int64_t>;

class IndexBoundsTest : public ::testing::Test {
 protected:
  // Six numbers of a sample, as (3, 2).
  IndexBoundsTest() : builder_(ops::registry()) {
    x_ = builder_.input("x", {DType::kFloat32, {Dim::batch(), Dim::constant(3), Dim::constant(2)}});
    ids_ = builder_.call("cast", "ids", {x_}, {{"dtype", "int32"}});
  }

  void look_up(ValueId ids, const std::string& table, int64_t rows) {
    const graph::StateId state = builder_.state(
        {.name = table, .type = {DType::kFloat32, {Dim::constant(rows), Dim::constant(4)}}});
    builder_.output(builder_.call("embedding", table + "/rows", {ids, builder_.read(state)}));
  }

  std::vector<IndexBound> bounds() { return index_bounds(builder_.finish(), 0); }

  GraphBuilder builder_;
  ValueId x_;
  ValueId ids_;
};

TEST_F(IndexBoundsTest, OfAllElements) {
  look_up(builder_.call("reshape", "flat", {ids_}, {{"shape", Ints{6}}}), "words", 20);
  EXPECT_EQ(bounds(), (std::vector<IndexBound>{{0, 6, 20, "words"}}));
}

TEST_F(IndexBoundsTest, OfParts) {
  // The second column, and the first one of the last row.
  look_up(builder_.call("slice", "column", {ids_}, {{"axis", 2}, {"begin", 1}, {"count", 1}}), "a",
          5);
  const ValueId row =
      builder_.call("slice", "row", {ids_}, {{"axis", 1}, {"begin", 2}, {"count", 1}});
  look_up(builder_.call("slice", "corner", {row}, {{"axis", 2}, {"begin", 0}, {"count", 1}}), "b",
          7);
  EXPECT_EQ(bounds(), (std::vector<IndexBound>{{1, 2, 5, "a", 2, 3}, {4, 5, 7, "b"}}));
}

TEST_F(IndexBoundsTest, OfWhatWasTurnedAndJoined) {
  const ValueId transposed =
      builder_.call("transpose", "turned", {ids_}, {{"permutation", Ints{2, 1}}});
  const ValueId first =
      builder_.call("slice", "first", {transposed}, {{"axis", 1}, {"begin", 0}, {"count", 1}});
  const ValueId back = builder_.call("reverse", "back", {first}, {{"axis", 2}});
  const ValueId end =
      builder_.call("slice", "end", {back}, {{"axis", 2}, {"begin", 0}, {"count", 1}});
  const ValueId begin =
      builder_.call("slice", "begin", {first}, {{"axis", 2}, {"begin", 0}, {"count", 1}});
  look_up(builder_.call("concat", "both", {end, begin}, {{"axis", 2}}), "table", 9);
  EXPECT_EQ(bounds(), (std::vector<IndexBound>{{0, 1, 9, "table"}, {4, 5, 9, "table"}}));
}

TEST_F(IndexBoundsTest, TheSmallerTableCounts) {
  look_up(ids_, "large", 100);
  look_up(ids_, "small", 10);
  EXPECT_EQ(bounds(), (std::vector<IndexBound>{{0, 6, 10, "small"}}));
}

TEST_F(IndexBoundsTest, ComputedNumbersAreNotFollowed) {
  const ValueId half =
      builder_.call("scale_shift", "half", {x_}, {{"scale", 0.5}, {"offset", 0.0}});
  look_up(builder_.call("cast", "halves", {half}, {{"dtype", "int32"}}), "table", 10);
  EXPECT_TRUE(bounds().empty());
}

// A list of all of them would not fit into memory.
TEST(IndexBounds, OfALongSample) {
  GraphBuilder builder(ops::registry());
  constexpr int64_t kLength = int64_t{1} << 40;
  const ValueId ids =
      builder.input("x", {DType::kInt32, {Dim::batch(), Dim::constant(kLength), Dim::constant(2)}});
  const auto look_up = [&](ValueId numbers, const std::string& table, int64_t rows) {
    const graph::StateId state = builder.state(
        {.name = table, .type = {DType::kFloat32, {Dim::constant(rows), Dim::constant(4)}}});
    builder.output(builder.call("embedding", table + "/rows", {numbers, builder.read(state)}));
  };
  const ValueId half = builder.call("slice", "half", {ids},
                                    {{"axis", 1}, {"begin", kLength / 2}, {"count", kLength / 2}});
  const ValueId transposed = builder.call("reverse", "turned", {half}, {{"axis", 2}});
  look_up(ids, "words", 20);
  look_up(half, "fewer", 10);
  look_up(transposed, "many", 30);
  EXPECT_EQ(
      index_bounds(builder.finish(), 0),
      (std::vector<IndexBound>{{0, kLength, 20, "words"}, {kLength, 2 * kLength, 10, "fewer"}}));
}

// Nor would a piece for each of its rows.
TEST(IndexBounds, OfColumnsOfALongSample) {
  constexpr int64_t kLength = int64_t{1} << 38;
  const auto columns = [](bool again) {
    GraphBuilder builder(ops::registry());
    const ValueId ids = builder.input(
        "x", {DType::kInt32, {Dim::batch(), Dim::constant(kLength), Dim::constant(4)}});
    const auto look_up = [&](int64_t column, int64_t count, const std::string& table,
                             int64_t rows) {
      const ValueId own = builder.call("slice", table + "/numbers", {ids},
                                       {{"axis", 2}, {"begin", column}, {"count", count}});
      const graph::StateId state = builder.state(
          {.name = table, .type = {DType::kFloat32, {Dim::constant(rows), Dim::constant(4)}}});
      builder.output(builder.call("embedding", table + "/rows", {own, builder.read(state)}));
    };
    look_up(0, 1, "first", 20);
    look_up(2, 2, "last", 10);
    if (again) look_up(3, 1, "again", 5);
    return index_bounds(builder.finish(), 0);
  };
  EXPECT_EQ(columns(false), (std::vector<IndexBound>{{0, 1, 20, "first", 4, kLength},
                                                     {2, 4, 10, "last", 4, kLength}}));
  EXPECT_THROW(columns(true), Error);
}

}  // namespace
}  // namespace plimsoll::layers
