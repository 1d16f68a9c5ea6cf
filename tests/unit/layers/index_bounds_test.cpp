#include "layers/index_bounds.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(bounds(), (std::vector<IndexBound>{
                          {1, 2, 5, "a"}, {3, 4, 5, "a"}, {4, 5, 7, "b"}, {5, 6, 5, "a"}}));
}

TEST_F(IndexBoundsTest, OfWhatWasTurnedAndJoined) {
  const ValueId turned =
      builder_.call("transpose", "turned", {ids_}, {{"permutation", Ints{2, 1}}});
  const ValueId first =
      builder_.call("slice", "first", {turned}, {{"axis", 1}, {"begin", 0}, {"count", 1}});
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

}  // namespace
}  // namespace plimsoll::layers
