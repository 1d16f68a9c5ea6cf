#include "ops/image/window_rows.h"

#include <gtest/gtest.h>

#include "graph/image_rows.h"

// Windows over images have an axis of rows, whatever the image's rank is.

namespace plimsoll::ops {
namespace {

graph::ValueType of_dims(std::vector<int64_t> dims) { return {DType::kFloat32, batch_shape(dims)}; }

std::vector<graph::Axis> axes_of_window(const graph::ValueType& x, const graph::ValueType& y) {
  const graph::Attributes none;
  const std::vector<graph::ValueType> inputs = {x, {DType::kFloat32, Shape()}};
  const std::vector<graph::ValueType> outputs = {y};
  const Window three{.input = 8, .output = 8, .size = 3, .before = 1, .after = 1};
  return window_axes({none, inputs, outputs}, three);
}

TEST(WindowRows, OfImagesAndOfVolumes) {
  for (const auto& dims : {std::vector<int64_t>{8, 6, 3}, {8, 6, 5, 3}, {8, 6, 5, 4, 3}}) {
    const std::vector<graph::Axis> axes = axes_of_window(of_dims(dims), of_dims(dims));
    ASSERT_EQ(axes.size(), 2u) << dims.size();
    EXPECT_EQ(axes[1].name, graph::kRowsAxis);
    EXPECT_EQ(axes[1].extent, Dim::constant(8));
    EXPECT_EQ(axes[1].inputs[0], (graph::AxisUse{1, 1, 1, 1}));
    EXPECT_EQ(axes[1].inputs[1], graph::AxisUse{});
    EXPECT_EQ(axes[1].outputs[0], (graph::AxisUse{.dimension = 1}));
  }
  EXPECT_EQ(axes_of_window(of_dims({8, 3}), of_dims({8, 3})).size(), 1u);
}

// What is mapped element by element is cut where windows move over values of its rank.
TEST(WindowRows, MapsFollowTheWindowsThatThereAre) {
  const graph::Attributes none;
  const auto count = [&](const std::vector<int64_t>& dims) {
    const std::vector<graph::ValueType> types = {of_dims(dims)};
    return graph::image_map_axes({none, types, types}).size();
  };
  EXPECT_EQ(count({8, 3}), 1u);
  EXPECT_EQ(count({8, 6, 3}), 2u);
  EXPECT_EQ(count({8, 6, 5, 3}), 2u);
  EXPECT_EQ(count({8, 6, 5, 4, 3}), 1u);
}

}  // namespace
}  // namespace plimsoll::ops
