#include "data/row_views.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "data/dataset_stages.h"
#include "unit/base/expect_error.h"

namespace plimsoll::data {
namespace {

using test::expect_error;

class ViewsTest : public ::testing::Test {
 protected:
  ViewsTest() { std::iota(values_.begin(), values_.end(), 0.0f); }
  std::shared_ptr<RowSource> numbers() {
    return rows_in_memory(values_.data(), DType::kFloat32, 10, {2}, "x");
  }
  std::shared_ptr<RowSource> labels() {
    return rows_in_memory(labels_.data(), DType::kInt64, 10, {}, "y");
  }
  static std::vector<float> all(RowSource& rows, int64_t width = 1) {
    std::vector<float> values(static_cast<size_t>(rows.row_count() * width));
    rows.read(0, rows.row_count(), DType::kFloat32, values.data());
    return values;
  }

  std::vector<float> values_ = std::vector<float>(20);
  std::vector<int64_t> labels_ = {0, 0, 0, 0, 0, 0, 0, 0, 2, 2};
};

TEST_F(ViewsTest, APartOfTheRows) {
  const auto part = part_of(numbers(), Permutation(10), 7, 3, true);
  EXPECT_EQ(part->row_count(), 3);
  EXPECT_EQ(all(*part, 2), (std::vector<float>{14, 15, 16, 17, 18, 19}));
}

TEST_F(ViewsTest, SplitsAsKerasDoes) {
  Dataset dataset;
  dataset.features = {numbers()};
  dataset.targets = {labels()};
  const Dataset rest = split_off(dataset, 0.25, 3);
  EXPECT_EQ(dataset.row_count(), 7);  // floor(10 × 0.75)
  EXPECT_EQ(all(*rest.features[0], 2).front(), 14);
  EXPECT_EQ(all(*rest.targets[0]), (std::vector<float>{0, 2, 2}));
  expect_error(ErrorKind::kConfig, "received 0.99", [&] {
    Dataset few = rest;
    split_off(few, 0.99, 0);
  });
}

TEST_F(ViewsTest, SortedRowsAreSplitFromAShuffledOrder) {
  Dataset dataset;
  dataset.features = {numbers()};
  dataset.targets = {labels()};
  dataset.sorted_by_class = true;
  const Dataset rest = split_off(dataset, 0.5, 3);
  std::vector<float> seen = all(*dataset.features[0], 2);
  const std::vector<float> others = all(*rest.features[0], 2);
  EXPECT_NE(seen.front(), 0);
  seen.insert(seen.end(), others.begin(), others.end());
  EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 20u);
}

TEST_F(ViewsTest, WeightsOfClasses) {
  Dataset dataset;
  dataset.features = {numbers()};
  dataset.targets = {labels()};
  weight_classes(dataset, "2:3.5,0:0.5");
  EXPECT_EQ(all(*dataset.weights[0]),
            (std::vector<float>{.5, .5, .5, .5, .5, .5, .5, .5, 3.5, 3.5}));
  weight_classes(dataset, "2:2");  // on top of weights that are there
  EXPECT_EQ(all(*dataset.weights[0]).back(), 7);
  dataset.weights.clear();
  weight_classes(dataset, "balanced");  // 10 / (2 × 8), 10 / (2 × 2)
  EXPECT_EQ(all(*dataset.weights[0]).front(), 0.625f);
  EXPECT_EQ(all(*dataset.weights[0]).back(), 2.5f);
  for (const char* text : {"", "1", "1:", ":2", "1:2,", "1:2,1:3", "a:1", "1:-2", "1:nan"}) {
    expect_error(ErrorKind::kConfig, "expected balanced or pairs",
                 [&] { weight_classes(dataset, text); });
  }
  dataset.targets = {numbers()};
  expect_error(ErrorKind::kData, "one class number a sample",
               [&] { weight_classes(dataset, "1:2", true); });
}

TEST_F(ViewsTest, WeightsOfRowsOfClassesAreThoseOfTheLargest) {
  Dataset dataset;
  dataset.features = {numbers()};
  dataset.targets = {numbers()};  // rows of two, the second larger
  weight_classes(dataset, "1:3");
  EXPECT_EQ(all(*dataset.weights[0]), std::vector<float>(10, 3.0f));
  weight_classes(dataset, "balanced");
  EXPECT_EQ(all(*dataset.weights[0]), std::vector<float>(10, 3.0f));
  dataset.weights = {constant_rows(0.5, 10, {2, 3})};  // one a step, say
  weight_classes(dataset, "1:4");
  EXPECT_EQ(dataset.weights[0]->row_shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(all(*dataset.weights[0], 6), std::vector<float>(60, 2.0f));
}

TEST_F(ViewsTest, UnitWeights) {
  Dataset dataset;
  dataset.features = {numbers()};
  Dataset like;
  like.weights = {constant_rows(2, 3, {4})};
  add_unit_weights(dataset, like);
  EXPECT_EQ(all(*dataset.weights[0], 4), std::vector<float>(40, 1.0f));
  EXPECT_EQ(weight_shapes(dataset), (std::vector<std::vector<int64_t>>{{4}}));
}

}  // namespace
}  // namespace plimsoll::data
