#include "data/dataset.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"
#include "unit/data/arrays.h"

namespace plimsoll::data {
namespace {

using test::expect_error;
using test::TemporaryFolder;

std::string features(int64_t rows) {
  return npy_text<float>({rows, 2}, counting<float>(static_cast<size_t>(2 * rows)));
}
std::string labels(int64_t rows) {
  return npy_text<int64_t>({rows}, counting<int64_t>(static_cast<size_t>(rows)));
}

TEST(Dataset, FromAnArchive) {
  const TemporaryFolder folder;
  const Dataset dataset = open_dataset(
      write_npz(folder, "a.npz", {{"x.npy", features(5)}, {"y.npy", labels(5)}}), "", "", "");
  EXPECT_EQ(dataset.row_count(), 5);
  EXPECT_EQ(dataset.features.size(), 1u);
  EXPECT_EQ(dataset.targets.size(), 1u);
  EXPECT_TRUE(dataset.weights.empty());
  EXPECT_EQ(dataset.resident_bytes(), Bytes(5 * 8 + 5 * 8));
}

TEST(Dataset, KnowsTheUsualNames) {
  const TemporaryFolder folder;
  const auto origin = [&](const std::vector<NpzMember>& members) {
    const Dataset dataset = open_dataset(write_npz(folder, "a.npz", members), "", "", "");
    return dataset.features[0]->origin().substr(folder.path().size() + 7) + " " +
           (dataset.targets.empty()
                ? "-"
                : dataset.targets[0]->origin().substr(folder.path().size() + 7));
  };
  EXPECT_EQ(origin({{"x_test.npy", features(2)},
                    {"x_train.npy", features(3)},
                    {"y_train.npy", labels(3)},
                    {"y_test.npy", labels(2)}}),
            "x_train.npy y_train.npy");
  EXPECT_EQ(origin({{"arr_0.npy", features(3)}, {"arr_1.npy", labels(3)}}), "arr_0.npy arr_1.npy");
  EXPECT_EQ(origin({{"x.npy", features(3)}}), "x.npy -");
  expect_error(ErrorKind::kData, "received an archive of a.npy, b.npy", [&] {
    origin({{"a.npy", features(3)}, {"b.npy", labels(3)}});
  });
  expect_error(ErrorKind::kData, "an archive of nothing", [&] { origin({}); });
}

TEST(Dataset, FilesBesideTheDataTakeTheirPlaces) {
  const TemporaryFolder folder;
  const std::string archive = write_npz(folder, "a.npz",
                                        {{"x.npy", features(3)},
                                         {"y.npy", labels(3)},
                                         {"sample_weight.npy", npy_text<float>({3}, {1, 2, 3})}});
  const std::string other = folder.write("other.npy", labels(3));
  EXPECT_EQ(open_dataset(archive, other, "", "").targets[0]->origin(), other);
  EXPECT_EQ(open_dataset(archive, "", "", "").weights.size(), 1u);
  EXPECT_EQ(open_dataset(archive, "", other, "").weights[0]->origin(), other);
  const std::string plain = folder.write("x.npy", features(3));
  EXPECT_EQ(open_dataset(plain, other, "", "").row_count(), 3);
  EXPECT_TRUE(open_dataset(plain, "", "", "").targets.empty());
}

TEST(Dataset, RowCountsMustAgree) {
  const TemporaryFolder folder;
  const std::string x = folder.write("x.npy", features(5));
  const std::string y = folder.write("y.npy", labels(4));
  expect_error(ErrorKind::kData, "y.npy: expected 5 rows as in " + x + ", received 4",
               [&] { open_dataset(x, y, "", ""); });
  expect_error(ErrorKind::kIo, "No such file",
               [&] { open_dataset(folder / "no.npy", "", "", ""); });
}

}  // namespace
}  // namespace plimsoll::data
