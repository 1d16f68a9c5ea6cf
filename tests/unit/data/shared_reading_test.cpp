// Reading on several threads gives the bytes and the errors of one.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "data/dataset.h"
#include "unit/base/expect_error.h"
#include "unit/data/arrays.h"

namespace plimsoll::data {
namespace {

using test::expect_error;
using Role = InputBinding::Role;

constexpr int64_t kRows = 300;
constexpr int64_t kElements = 1000;

std::atomic<int> shared_calls{0};

// A thread for each part.
WorkSharing threads(int count) {
  return {count, [](int parts, WorkSharing::Part part, const void* body) noexcept {
            ++shared_calls;
            std::vector<std::thread> all;
            for (int i = 0; i < parts; ++i) all.emplace_back([=] { part(body, i); });
            for (std::thread& one : all) one.join();
          }};
}

std::vector<float> read(Dataset& dataset, Shuffle shuffle, int count, bool check = false) {
  BatchSource batches(dataset, {{Role::kFeatures, 0, "x", DType::kFloat32, kElements, 0}},
                      {.batch = 128, .shuffle = shuffle, .seed = 5, .check_finite = check});
  if (count > 1) batches.share_reading(threads(count));
  std::vector<float> all(static_cast<size_t>(2 * kRows * kElements));
  float* out = all.data();
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (int64_t i = 0; i < batches.batch_count(); ++i) {
      batches.select(epoch, i);
      batches.fill(0, 0, batches.rows_in(i), out);
      out += batches.rows_in(i) * kElements;
    }
  }
  return all;
}

std::vector<double> numbers() { return counting<double>(kRows * kElements); }

TEST(SharedReading, GivesTheBytesOfOneThread) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("x.npy", npy_text<double>({kRows, kElements}, numbers()));
  const std::vector<double> values = numbers();
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kBlock, Shuffle::kFull}) {
    Dataset file = open_dataset(path, "", "", "");
    const std::vector<float> expected = read(file, shuffle, 1);
    for (const int count : {2, 3, 7}) {
      const int before = shared_calls;
      EXPECT_EQ(read(file, shuffle, count), expected) << count;
      EXPECT_GT(shared_calls, before);
    }
    Dataset memory;
    memory.features.push_back(
        rows_in_memory(values.data(), DType::kFloat64, kRows, {kElements}, "x"));
    EXPECT_EQ(read(memory, shuffle, 1), expected);
    EXPECT_EQ(read(memory, shuffle, 4), expected);
  }
}

TEST(SharedReading, NamesTheFirstBadRow) {
  std::vector<double> values = numbers();
  for (const int64_t row : {50, 90, 120}) values[static_cast<size_t>(row * kElements + 3)] = NAN;
  Dataset memory;
  memory.features.push_back(
      rows_in_memory(values.data(), DType::kFloat64, kRows, {kElements}, "x"));
  for (const int count : {1, 2, 5}) {
    expect_error(ErrorKind::kData, "x: row 50: expected a finite number, received nan",
                 [&] { read(memory, Shuffle::kNone, count, true); });
  }
}

TEST(SharedReading, IsForLargeReadsOnly) {
  const std::vector<double> values = numbers();
  Dataset memory;
  memory.features.push_back(
      rows_in_memory(values.data(), DType::kFloat64, kRows, {kElements}, "x"));
  BatchSource batches(memory, {{Role::kFeatures, 0, "x", DType::kFloat32, kElements, 0}},
                      {.batch = 128});
  batches.share_reading(threads(4));
  batches.select(0, 0);
  std::vector<float> out(128 * kElements);
  const int before = shared_calls;
  batches.fill(0, 0, 8, out.data());  // 64 KB
  EXPECT_EQ(shared_calls, before);
  batches.fill(0, 0, 32, out.data());
  EXPECT_EQ(shared_calls, before + 1);
}

}  // namespace
}  // namespace plimsoll::data
