#include "plan/core/extents.h"

#include <gtest/gtest.h>

#include "plan/tree/complete.h"
#include "plan/tree/text.h"
#include "toys/toy_plans.h"

namespace plimsoll::plan {
namespace {

TEST(ExtentsTest, RowsOfADimension) {
  EXPECT_EQ(rows_of({0, 1, 0, 0}, {4, 8}, 19), (RowRange{4, 8}));
  EXPECT_EQ(rows_of({0, 4, 0, 3}, {4, 8}, 76), (RowRange{16, 32}));
  EXPECT_EQ(rows_of({0, 1, 1, 1}, {0, 4}, 19), (RowRange{0, 5}));
  EXPECT_EQ(rows_of({0, 1, 1, 1}, {16, 19}, 19), (RowRange{15, 19}));
  EXPECT_EQ(rows_of({0, 2, 1, 2}, {2, 3}, 19), (RowRange{3, 7}));
  EXPECT_EQ(rows_of({0, 1, 1, 1}, {5, 5}, 19), RowRange{});
}

TEST(ExtentsTest, TurnsOfNestedLoopsEndWithTheLoopAround) {
  const Loop outer{"batch", 19, 8, {}};
  const Loop inner{"batch", 8, 4, {}};
  EXPECT_EQ(iteration_count(outer, {0, 19}, 0), 3);
  const RowRange last = iteration_from(outer, {0, 19}, 16, 0);
  EXPECT_EQ(last, (RowRange{16, 19}));
  EXPECT_EQ(iteration_count(inner, last, 0), 1);
  EXPECT_EQ(iteration_from(inner, last, 16, 0), (RowRange{16, 19}));
  EXPECT_EQ(iteration_from(inner, {8, 16}, 12, 0), (RowRange{12, 16}));
}

TEST(ExtentsTest, TurnsStartAnewInEachLane) {
  const Loop loop{"batch", 19, 4, {}};
  EXPECT_EQ(iteration_count(loop, {0, 19}, 5), 7);
  EXPECT_EQ(iteration_from(loop, {0, 19}, 0, 5), (RowRange{0, 4}));
  EXPECT_EQ(iteration_from(loop, {0, 19}, 4, 5), (RowRange{4, 5}));
  EXPECT_EQ(iteration_from(loop, {0, 19}, 5, 5), (RowRange{5, 9}));
  EXPECT_EQ(iteration_from(loop, {0, 19}, 15, 5), (RowRange{15, 19}));
  EXPECT_EQ(iteration_count(loop, {5, 10}, 5), 2);
}

TEST(ExtentsTest, BlocksCountFromTheStartOfTheirLane) {
  EXPECT_EQ(block_count({0, 19}, 4, 5), 7);
  EXPECT_EQ(block_rows({0, 19}, 4, 5, 1), (RowRange{4, 5}));
  EXPECT_EQ(block_rows({0, 19}, 4, 5, 2), (RowRange{5, 9}));
  EXPECT_EQ(block_rows({0, 19}, 4, 5, 6), (RowRange{15, 19}));
  EXPECT_EQ(block_count({5, 15}, 4, 5), 4);
  EXPECT_EQ(block_rows({5, 15}, 4, 5, 3), (RowRange{14, 15}));
  // A block that is longer than a lane ends with it.
  EXPECT_EQ(block_count({0, 19}, 8, 5), 4);
  EXPECT_EQ(block_rows({0, 19}, 8, 5, 3), (RowRange{15, 19}));
}

TEST(ExtentsTest, BlocksCountFromTheStartOfTheAxis) {
  EXPECT_EQ(block_count({8, 19}, 4, 0), 3);
  EXPECT_EQ(block_rows({8, 19}, 4, 0, 2), (RowRange{16, 19}));
  EXPECT_EQ(block_count({6, 10}, 8, 0), 2);
  EXPECT_EQ(block_rows({6, 10}, 8, 0, 0), (RowRange{6, 8}));
  EXPECT_EQ(block_rows({6, 10}, 8, 0, 1), (RowRange{8, 10}));
  EXPECT_EQ(block_count({3, 3}, 8, 0), 0);
}

TEST(ExtentsTest, BytesOfBitsStartSamplesAtBytes) {
  const graph::ValueType plain{DType::kFloat32, Shape({Dim::batch(4), Dim::constant(3)})};
  const std::vector<int64_t> rows = {8, 3};
  EXPECT_EQ(instance_bytes(plain, "", rows), Bytes(8 * 3 * 4));
  EXPECT_EQ(instance_bytes(plain, "positive_bits", rows), 4_B);
  EXPECT_EQ(instance_bytes({DType::kFloat32, Shape()}, "", {}), 4_B);
}

class InstanceRowsTest : public ::testing::Test {
 protected:
  void load(std::string_view program, std::string_view plan) {
    programs_ = toys::parse_programs(program);
    plan_ = toys::parse_plan(plan, programs_, catalog_);
    axes_ = find_all_axes(programs_.programs[0].graph);
    rules_ = find_instance_rules(plan_.programs[0], programs_.programs[0].graph, axes_);
  }
  std::vector<int64_t> largest(size_t instance) const {
    return largest_rows(rules_[instance], plan_.programs[0]);
  }

  graph::ProgramSet programs_;
  toys::ToyCatalog catalog_;
  Plan plan_;
  AxisTable axes_;
  std::vector<InstanceRule> rules_;
};

TEST_F(InstanceRowsTest, FollowTheLoopsAroundTheScope) {
  load(
      "program train batch 19\n"
      "input %x float32 (4B, 3)\n"
      "state %w float32 (3, 6) weight\n"
      "node a scale (%x) -> (%a float32 (4B, 3)) {factor=2.0} forward\n"
      "node b scale (%a) -> (%b float32 (4B, 3)) {factor=2.0} forward\n"
      "node t total (%b) -> (%t float32 (3)) {} forward\n"
      "output %t\n",
      "program train\n"
      "instance %0 x\ninstance %1 a\ninstance %2 b\ninstance %3 t\n"
      "loop L0 batch extent=19 slice=8\n"
      "  loop L1 batch extent=8 slice=4\n"
      "    feed %0\n"
      "    call a (%0) -> (%1)\n"
      "  end\n"
      "  call b (%1) -> (%2)\n"
      "  call t (%2) -> (%3)\n"
      "end\n"
      "output %3\n");
  EXPECT_EQ(plan_.programs[0].instances[0].scope, LoopId(1));
  EXPECT_EQ(plan_.programs[0].instances[1].scope, LoopId(0));
  EXPECT_FALSE(plan_.programs[0].instances[3].scope.valid());
  EXPECT_EQ(largest(0), (std::vector<int64_t>{16, 3}));
  EXPECT_EQ(largest(1), (std::vector<int64_t>{32, 3}));
  EXPECT_EQ(largest(3), (std::vector<int64_t>{3}));
  const std::vector<RowRange> iterations = {{16, 19}, {16, 19}};
  EXPECT_EQ(instance_rows(rules_[1], iterations), (std::vector<RowRange>{{64, 76}, {0, 3}}));
}

TEST_F(InstanceRowsTest, FollowOtherAxesWithBindings) {
  load(
      "program train batch 8\n"
      "input %x float32 (B, 4)\n"
      "state %w float32 (4, 6) weight\n"
      "node h lines (%x, %w) -> (%h float32 (B, 6)) {} forward\n"
      "node s row_sum (%h) -> (%s float32 (B)) {} forward\n"
      "output %s\n",
      "program train\n"
      "instance %0 x\ninstance %1 w\ninstance %2 h\ninstance %3 s\n"
      "loop L0 batch slice=4\n"
      "  feed %0\n"
      "  loop L1 chunk extent=6 slice=2\n"
      "    call h (%0 %1) -> (%2) bind=L1:units\n"
      "    call s (%2) -> (%3) bind=L1:units\n"
      "  end\n"
      "  output %3\n"
      "end\n");
  EXPECT_EQ(largest(2), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(plan_.programs[0].instances[3].scope, LoopId(0));
  EXPECT_EQ(largest(3), (std::vector<int64_t>{4}));
  const Call& call = std::get<Call>(plan_.programs[0].loops[1].items[0]);
  const std::vector<LoopId> parents = find_parents(plan_.programs[0]);
  EXPECT_EQ(bind_loops(plan_.programs[0], parents, LoopId(1), call, axes_[0]),
            (std::vector<LoopId>{LoopId(0), LoopId(1)}));
}

TEST_F(InstanceRowsTest, AnInputHasTheWindowThatItsReadersNeed) {
  load(
      "program train batch 2\n"
      "input %x float32 (B, 10)\n"
      "node y smooth (%x) -> (%y float32 (B, 10)) {} forward\n"
      "output %y\n",
      "program train\n"
      "instance %0 x\ninstance %1 y scope=root\n"
      "loop L0 rows slice=4\n"
      "  feed %0\n"
      "  call y (%0) -> (%1)\n"
      "end\n"
      "output %1\n");
  EXPECT_EQ(plan_.programs[0].loops[0].extent, 10);
  EXPECT_EQ(largest(0), (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(instance_rows(rules_[0], std::vector<RowRange>{{8, 10}}),
            (std::vector<RowRange>{{0, 2}, {7, 10}}));
  EXPECT_EQ(largest(1), (std::vector<int64_t>{2, 10}));
}

}  // namespace
}  // namespace plimsoll::plan
