#include "api/dataset.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll {
namespace {

using test::expect_error;

TEST(ApiDataset, TakesArraysOfEveryType) {
  const std::vector<float> a(6);
  const std::vector<double> b(6);
  const std::vector<int32_t> c(3);
  const std::vector<int64_t> d(3);
  const std::vector<int8_t> e(3);
  const std::vector<uint8_t> f(3);
  EXPECT_EQ(Dataset::from_arrays({a.data(), {3, 2}}, {c.data(), {3}}).row_count(), 3);
  EXPECT_EQ(Dataset::from_arrays({b.data(), {6}}).row_count(), 6);
  EXPECT_EQ(
      Dataset::from_arrays({{e.data(), {3}}, {f.data(), {3, 1}}}, {{d.data(), {3}}}).row_count(),
      3);
}

TEST(ApiDataset, RefusesArraysThatDoNotFitEachOther) {
  const std::vector<float> x(6);
  expect_error(ErrorKind::kData, "y", [&] {
    Dataset::from_arrays({x.data(), {3, 2}}, {x.data(), {2}});
  });
  expect_error(ErrorKind::kData, "[x] expected an array of samples", [&] {
    Dataset::from_arrays({x.data(), {}});
  });
  expect_error(ErrorKind::kData, "[x] expected dimensions of 0 or more", [&] {
    Dataset::from_arrays({x.data(), {3, -2}});
  });
}

TEST(ApiDataset, NamesTheFileThatIsMissing) {
  const test::TemporaryFolder folder;
  expect_error(ErrorKind::kIo, "none.npy", [&] { Dataset::from_npy(folder / "none.npy"); });
}

}  // namespace
}  // namespace plimsoll
