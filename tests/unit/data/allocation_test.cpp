// Filling a batch allocates nothing: it happens inside a training step.

#include <gtest/gtest.h>

#include "data/dataset.h"
#include "data/rows/read_ahead.h"
#include "unit/base/allocation_counter.h"
#include "unit/data/arrays.h"

namespace plimsoll::data {
namespace {

void expect_no_allocation(Dataset& dataset, DType dtype, int64_t elements, Shuffle shuffle) {
  BatchSource batches(dataset, {{InputBinding::Role::kFeatures, 0, "x", dtype, elements, 0}},
                      {.batch = 50, .shuffle = shuffle, .check_finite = true});
  std::vector<std::byte> destination(static_cast<size_t>(50 * elements * 8));
  const int64_t before = test::allocation_count();
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (int64_t batch = 0; batch < batches.batch_count(); ++batch) {
      batches.select(epoch, batch);
      batches.fill(0, 0, batches.rows_in(batch), destination.data());
    }
  }
  EXPECT_EQ(test::allocation_count() - before, 0);
}

TEST(Allocation, FillAllocatesNothing) {
  const test::TemporaryFolder folder;
  const std::string large =
      folder.write("a.npy", npy_text<double>({120, 1000}, counting<double>(120000)));
  const std::string small =
      folder.write("b.npy", npy_text<uint8_t>({120, 4}, counting<uint8_t>(480)));
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kBlock, Shuffle::kFull}) {
    Dataset converted = open_dataset(large, "", "", "");
    expect_no_allocation(converted, DType::kFloat32, 1000, shuffle);
    expect_no_allocation(converted, DType::kFloat64, 1000, shuffle);
    Dataset kept = open_dataset(small, "", "", "");
    expect_no_allocation(kept, DType::kFloat32, 4, shuffle);
  }
}

TEST(Allocation, ReadingAheadAllocatesNothing) {
  const test::TemporaryFolder folder;
  constexpr int64_t kRows = 1200;
  const std::string path =
      folder.write("a.npy", npy_text<double>({kRows, 1000}, counting<double>(kRows * 1000)));
  if (!ReadAhead::works_with(File::open_read(path))) GTEST_SKIP() << "no direct reads here";
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kBlock}) {
    Dataset dataset = open_dataset(path, "", "", "");
    const bool whole = shuffle == Shuffle::kNone;
    dataset.features.front()->grant_ahead(
        8_MiB, whole ? 1 : RowOrder::kGroupBlocks,
        whole ? rows_ahead(50, 8000) : RowOrder::rows_of_block(8000));
    expect_no_allocation(dataset, DType::kFloat32, 1000, shuffle);
    expect_no_allocation(dataset, DType::kFloat64, 1000, shuffle);
  }
}

}  // namespace
}  // namespace plimsoll::data
