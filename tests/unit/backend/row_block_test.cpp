// Where blocks of rows may stand that miss different rows at the edges of their operands.

#include "backend/kernel/row_block.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "backend/kernel/tail.h"

namespace plimsoll::backend {
namespace {

graph::Axis rows_axis(int64_t rows, const graph::AxisUse& input) {
  graph::Axis axis;
  axis.name = graph::kRowsAxis;
  axis.kind = graph::AxisKind::kWindow;
  axis.extent = Dim::constant(rows);
  axis.inputs = {input};
  axis.outputs = {{1, 1, 0, 0}};
  return axis;
}

std::vector<int64_t> missing_at(const graph::Axis& axis, int64_t begin, int64_t rows) {
  std::vector<int64_t> missing;
  for (const auto* uses : {&axis.inputs, &axis.outputs}) {
    for (const graph::AxisUse& use : *uses) {
      missing.push_back(std::max<int64_t>(use.before - begin * use.stride, 0));
      const int64_t after = (axis.extent.count - begin - rows) * use.stride;
      missing.push_back(std::max<int64_t>(use.after + use.before - after, 0));
    }
  }
  return missing;
}

// Every block looked at, one by one.
std::vector<std::vector<int64_t>> look_at_all(const graph::Axis& axis, int64_t block,
                                              int64_t rows) {
  std::set<std::vector<int64_t>> seen;
  std::vector<std::vector<int64_t>> found;
  for (int64_t begin = 0; begin < axis.extent.count; begin += block) {
    if (std::min(block, axis.extent.count - begin) != rows) continue;
    if (seen.insert(missing_at(axis, begin, rows)).second) found.push_back({begin});
  }
  return found;
}

TEST(ShapesOfCalls, DifferWhereBlocksDoNotDivideOrEdgesDiffer) {
  graph::Axis batch;
  batch.name = graph::kBatchAxis;
  batch.kind = graph::AxisKind::kMap;
  batch.extent = Dim::batch();
  const std::vector<graph::Axis> samples = {batch};
  const auto shapes = [](const std::vector<graph::Axis>& axes, const std::vector<int64_t>& block,
                         int64_t batch, int64_t lanes = 1) {
    return shape_count(axes, block, {"train", {}, batch, lanes});
  };
  EXPECT_EQ(shapes(samples, {4}, 8), 1);
  EXPECT_EQ(shapes(samples, {4}, 9), 2);
  EXPECT_EQ(shapes(samples, {4}, 8, 2), 1);
  EXPECT_EQ(shapes(samples, {4}, 10, 2), 2);
  EXPECT_EQ(shapes(samples, {8}, 100, 8), 3);
  const std::vector<graph::Axis> images = {batch, rows_axis(12, {1, 1, 1, 1})};
  EXPECT_EQ(shapes(images, {4, 12}, 8), 1);
  EXPECT_EQ(shapes(images, {4, 6}, 8), 2);
}

TEST(RowPositions, AreThoseOfAllBlocks) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    const int64_t rows = draw(2, 90);
    const graph::Axis axis = rows_axis(rows, {1, draw(1, 4), draw(0, 20), draw(0, 20)});
    const int64_t block = draw(1, rows - 1);
    const int64_t tail = rows % block;
    for (const int64_t length : {block, tail == 0 ? block : tail}) {
      const std::vector<graph::Axis> axes = {axis};
      const std::vector<int64_t> blocks = {block};
      const std::vector<int64_t> extents = {length};
      ASSERT_EQ(find_row_positions(axes, blocks, extents), look_at_all(axis, block, length))
          << rows << " rows in blocks of " << block << ", of " << length;
    }
  }
}

TEST(RowPositions, OfALongAxisTakeNoTime) {
  const std::vector<graph::Axis> axes = {rows_axis(int64_t{1} << 40, {1, 1, 3, 3})};
  const std::vector<int64_t> block = {1};
  EXPECT_EQ(find_row_positions(axes, block, block).size(), 10U);
}

}  // namespace
}  // namespace plimsoll::backend
