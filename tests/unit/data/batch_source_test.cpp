#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "data/dataset.h"
#include "unit/base/expect_error.h"
#include "unit/data/arrays.h"

namespace plimsoll::data {
namespace {

using test::expect_error;
using Role = InputBinding::Role;

// Remembers how it was read.
class RecordingRows final : public RowSource {
 public:
  RecordingRows(int64_t rows, std::vector<std::pair<int64_t, int64_t>>& reads,
                std::vector<int64_t> shape = {})
      : rows_(rows), reads_(reads), shape_(std::move(shape)) {}
  int64_t row_count() const override { return rows_; }
  const std::vector<int64_t>& row_shape() const override { return shape_; }
  DType stored_dtype() const override { return DType::kInt32; }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override { return Bytes(7); }
  bool can_read_as(DType dtype) const override { return dtype == DType::kInt32; }
  void expect_order(bool random) override { random_ = random; }
  void read_ahead(int64_t first, int64_t count) override { ahead_.emplace_back(first, count); }
  const std::vector<std::pair<int64_t, int64_t>>& ahead() const { return ahead_; }
  void read(int64_t first, int64_t count, DType, void* destination) override {
    reads_.emplace_back(first, count);
    for (int64_t i = 0; i < count; ++i) {
      static_cast<int32_t*>(destination)[i] = static_cast<int32_t>(first + i);
    }
  }

 private:
  int64_t rows_;
  std::vector<std::pair<int64_t, int64_t>>& reads_;
  std::vector<int64_t> shape_;
  std::string origin_ = "recorded";
  bool random_ = false;
  std::vector<std::pair<int64_t, int64_t>> ahead_;
};

struct Recorded {
  explicit Recorded(int64_t rows) {
    dataset.features.push_back(std::make_unique<RecordingRows>(rows, reads));
  }
  BatchSource batches(const BatchOptions& options) {
    return BatchSource(dataset, {{Role::kFeatures, 0, "input", DType::kInt32, 1, 0}}, options);
  }
  std::vector<std::pair<int64_t, int64_t>> reads;
  Dataset dataset;
};

std::vector<int32_t> fill(BatchSource& batches, int64_t begin, int64_t count) {
  std::vector<int32_t> rows(static_cast<size_t>(count));
  batches.fill(0, begin, count, rows.data());
  return rows;
}

TEST(BatchSource, CountsTheShortLastBatch) {
  Recorded recorded(10);
  const BatchSource batches = recorded.batches({.batch = 4});
  EXPECT_EQ(batches.row_count(), 10);
  EXPECT_EQ(batches.batch_count(), 3);
  EXPECT_EQ(batches.rows_in(1), 4);
  EXPECT_EQ(batches.rows_in(2), 2);
  EXPECT_EQ(batches.resident_bytes(), Bytes(7));
  EXPECT_EQ(recorded.batches({.batch = 5}).batch_count(), 2);
  EXPECT_EQ(recorded.batches({.batch = 100}).batch_count(), 1);
  EXPECT_EQ(recorded.batches({.batch = 100}).rows_in(0), 10);
}

TEST(BatchSource, InOrderTheNextBatchIsAskedForAhead) {
  using Rows = std::vector<std::pair<int64_t, int64_t>>;
  Recorded recorded(100);
  const auto* rows = static_cast<const RecordingRows*>(recorded.dataset.features[0].get());
  BatchSource batches = recorded.batches({.batch = 32});
  for (int64_t i = 0; i < 8; ++i) batches.select(i / 4, i % 4);
  // Small batches are asked for several at a time.
  EXPECT_EQ(rows->ahead(), (Rows{{32, 68}, {0, 100}, {0, 100}}));
  BatchSource whole = recorded.batches({.batch = 100});
  whole.select(0, 0);
  BatchSource shuffled = recorded.batches({.batch = 32, .shuffle = Shuffle::kFull});
  shuffled.select(0, 0);
  EXPECT_EQ(rows->ahead().size(), 3u);
  batches.select_rows(40, 32);
  batches.select_rows(72, 28);
  EXPECT_EQ(rows->ahead().size(), 4u);
  EXPECT_EQ(rows->ahead().back(), (std::pair<int64_t, int64_t>{72, 28}));
}

TEST(BatchSource, LargeBatchesAreAskedForOneAtATime) {
  using Rows = std::vector<std::pair<int64_t, int64_t>>;
  std::vector<std::pair<int64_t, int64_t>> reads;
  Dataset dataset;
  dataset.features.push_back(
      std::make_unique<RecordingRows>(100, reads, std::vector<int64_t>{1 << 16}));
  const auto* rows = static_cast<const RecordingRows*>(dataset.features[0].get());
  BatchSource batches(dataset, {{Role::kFeatures, 0, "input", DType::kInt32, 1 << 16, 0}},
                      {.batch = 32});
  for (int64_t i = 0; i < 4; ++i) batches.select(0, i);
  EXPECT_EQ(rows->ahead(), (Rows{{32, 32}, {64, 32}, {96, 4}, {0, 32}}));
}

TEST(BatchSource, InOrderASliceIsOneRead) {
  Recorded recorded(100);
  BatchSource batches = recorded.batches({.batch = 32});
  batches.select(0, 1);
  EXPECT_EQ(fill(batches, 8, 3), (std::vector<int32_t>{40, 41, 42}));
  EXPECT_EQ(recorded.reads, (std::vector<std::pair<int64_t, int64_t>>{{40, 3}}));
}

TEST(BatchSource, AnEpochHoldsEveryRowOnce) {
  Recorded recorded(1000);
  BatchSource batches = recorded.batches({.batch = 64, .shuffle = Shuffle::kFull, .seed = 3});
  std::set<int32_t> seen;
  for (int64_t i = 0; i < batches.batch_count(); ++i) {
    batches.select(0, i);
    for (int32_t row : fill(batches, 0, batches.rows_in(i))) seen.insert(row);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(BatchSource, AnySliceInAnyOrderIsThatPartOfTheBatch) {
  Recorded recorded(1000);
  BatchSource batches = recorded.batches({.batch = 64, .shuffle = Shuffle::kFull, .seed = 3});
  batches.select(4, 7);
  const std::vector<int32_t> whole = fill(batches, 0, 64);
  for (int64_t begin : {60, 0, 31}) {
    const std::vector<int32_t> part = fill(batches, begin, 4);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin));
  }
  EXPECT_NE(whole, [&] {
    batches.select(5, 7);
    return fill(batches, 0, 64);
  }());
  batches.select(4, 7);
  EXPECT_EQ(fill(batches, 0, 64), whole);
}

TEST(BatchSource, NeighboursInTheDataAreReadTogether) {
  Recorded recorded(3);  // few rows: some shuffled orders keep neighbours together
  BatchSource batches = recorded.batches({.batch = 3, .shuffle = Shuffle::kFull, .seed = 0});
  int together = 0;
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    batches.select(epoch, 0);
    recorded.reads.clear();
    const std::vector<int32_t> rows = fill(batches, 0, 3);
    size_t runs = 1;
    for (size_t i = 1; i < rows.size(); ++i) runs += rows[i] == rows[i - 1] + 1 ? 0 : 1;
    EXPECT_EQ(recorded.reads.size(), runs);
    together += runs < 3 ? 1 : 0;
  }
  EXPECT_GT(together, 5);
}

struct InMemory {
  std::vector<float> x = counting<float>(12);
  std::vector<int64_t> y = {0, 1, 2};
  Dataset dataset;

  void bind() {
    dataset.features.clear();
    dataset.targets.clear();
    dataset.features.push_back(rows_in_memory(x.data(), DType::kFloat32, 3, {2, 2, 1}, "x"));
    dataset.targets.push_back(rows_in_memory(y.data(), DType::kInt64, 3, {1}, "y"));
  }
  BatchSource batches(const BatchOptions& options = {}, int64_t classes = 3) {
    bind();
    return BatchSource(dataset,
                       {{Role::kFeatures, 0, "image", DType::kFloat32, 4, 0},
                        {Role::kTarget, 0, "label", DType::kInt32, 1, classes}},
                       options);
  }
};

TEST(BatchSource, FillsEachInputInItsType) {
  InMemory data;
  BatchSource batches = data.batches({.batch = 2});
  batches.select(0, 1);
  float image[4];
  int32_t label = -1;
  batches.fill(0, 0, 1, image);
  batches.fill(1, 0, 1, &label);
  EXPECT_EQ(image[3], 11.0f);
  EXPECT_EQ(label, 2);
}

TEST(BatchSource, LabelsOutsideOfTheClassesNameRowAndValue) {
  InMemory data;
  for (int64_t bad : {int64_t{3}, int64_t{-1}}) {
    data.y = {0, bad, 2};
    for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kBlock, Shuffle::kFull}) {
      BatchSource batches = data.batches({.batch = 3, .shuffle = shuffle});
      batches.select(0, 0);
      int32_t labels[3];
      expect_error(ErrorKind::kData,
                   "y: row 1: expected a label from 0 to 2 (the model has 3 classes), received " +
                       std::to_string(bad),
                   [&] { batches.fill(1, 0, 3, labels); });
    }
  }
  BatchSource unbounded = data.batches({.batch = 3}, 0);
  unbounded.select(0, 0);
  int32_t labels[3];
  EXPECT_NO_THROW(unbounded.fill(1, 0, 3, labels));
}

TEST(BatchSource, FindsNumbersThatAreNotFiniteWhereAsked) {
  InMemory data;
  data.x[5] = std::nanf("");
  float images[12];
  BatchSource lenient = data.batches({.batch = 3});
  lenient.select(0, 0);
  EXPECT_NO_THROW(lenient.fill(0, 0, 3, images));
  BatchSource strict = data.batches({.batch = 3, .check_finite = true});
  strict.select(0, 0);
  expect_error(ErrorKind::kData, "x: row 1: expected a finite number, received nan",
               [&] { strict.fill(0, 0, 3, images); });
}

TEST(BatchSource, ChecksBindingsBeforeReading) {
  InMemory data;
  data.bind();
  const auto expect_refused = [&](ErrorKind kind, const std::string& part,
                                  const InputBinding& binding) {
    expect_error(kind, part, [&] { BatchSource(data.dataset, {binding}, {}); });
  };
  expect_refused(ErrorKind::kData, "[image] x: expected samples of 5 numbers",
                 {Role::kFeatures, 0, "image", DType::kFloat32, 5, 0});
  expect_refused(ErrorKind::kData, "received samples of shape (2, 2, 1)",
                 {Role::kFeatures, 0, "image", DType::kFloat32, 5, 0});
  InputBinding shaped{Role::kFeatures, 0, "image", DType::kFloat32, 4, 0};
  shaped.sample_shape = {{1, 4}};
  EXPECT_NO_THROW(BatchSource(data.dataset, {shaped}, {}));
  shaped.sample_shape = {{2, 2}};
  EXPECT_NO_THROW(BatchSource(data.dataset, {shaped}, {}));
  expect_refused(ErrorKind::kData, "can be read as uint8, received float32",
                 {Role::kFeatures, 0, "image", DType::kUInt8, 4, 0});
  expect_refused(ErrorKind::kConfig, "[second] expected labels, received none. Name the labels",
                 {Role::kTarget, 1, "second", DType::kInt32, 1, 0});
  expect_refused(ErrorKind::kConfig, "--sample-weights",
                 {Role::kSampleWeight, 0, "label", DType::kFloat32, 1, 0});
  expect_error(ErrorKind::kConfig, "--batch", [&] { data.batches({.batch = 0}); });
}

}  // namespace
}  // namespace plimsoll::data
