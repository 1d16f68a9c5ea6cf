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

// Those of a model that takes `left` and `right` and has a loss on `a` and `b`.
DatasetOptions two_and_two(const std::string& data) {
  DatasetOptions options;
  options.data = data;
  options.inputs = {{"left"}, {"right"}};
  options.outputs = {{"a"}, {"b"}};
  return options;
}

std::string members_of(const Dataset& dataset, size_t skip) {
  std::string text;
  for (const auto* group : {&dataset.features, &dataset.targets, &dataset.weights}) {
    for (const auto& source : *group) text += source->origin().substr(skip) + " ";
    text += "| ";
  }
  return text;
}

TEST(Dataset, FindsSeveralInputsAndOutputsByName) {
  const TemporaryFolder folder;
  const size_t skip = folder.path().size() + 7;
  const std::vector<NpzMember> inputs = {{"right.npy", features(3)}, {"left.npy", features(3)}};
  std::vector<NpzMember> all = inputs;
  all.push_back({"b.npy", labels(3)});
  all.push_back({"sample_weight.npy", npy_text<float>({3}, {1, 2, 3})});
  expect_error(ErrorKind::kData, "for each output that has a loss (a, b), received 1 of them",
               [&] { open_dataset(two_and_two(write_npz(folder, "a.npz", all))); });
  all.push_back({"a.npy", labels(3)});
  const Dataset dataset = open_dataset(two_and_two(write_npz(folder, "a.npz", all)));
  EXPECT_EQ(members_of(dataset, skip),
            "left.npy right.npy | a.npy b.npy | sample_weight.npy sample_weight.npy | ");
  EXPECT_EQ(dataset.resident_bytes(), Bytes(2 * 3 * 8 + 2 * 3 * 8 + 3 * 4));
  EXPECT_EQ(members_of(open_dataset(two_and_two(write_npz(folder, "a.npz", inputs))), skip),
            "left.npy right.npy | | | ");
  expect_error(ErrorKind::kData,
               "an array for each input of the model (left, right), received an archive of x.npy",
               [&] {
                 open_dataset(two_and_two(write_npz(folder, "a.npz", {{"x.npy", ""}})));
               });
}

TEST(Dataset, OneInputIsFoundByItsNameToo) {
  const TemporaryFolder folder;
  const auto members = [&](const std::vector<NpzMember>& contents) {
    DatasetOptions options;
    options.data = write_npz(folder, "a.npz", contents);
    options.inputs = {{"image"}};
    options.outputs = {{"class"}};
    return members_of(open_dataset(options), folder.path().size() + 7);
  };
  EXPECT_EQ(members({{"image.npy", features(3)}, {"class.npy", labels(3)}}),
            "image.npy | class.npy | | ");
  EXPECT_EQ(members({{"image.npy", features(3)}, {"label.npy", labels(3)}}),
            "image.npy | label.npy | | ");
  EXPECT_EQ(members({{"x.npy", features(3)}, {"y.npy", labels(3)}}), "x.npy | y.npy | | ");
}

TEST(Dataset, APathForEachInputAndOutput) {
  const TemporaryFolder folder;
  DatasetOptions options = two_and_two("");
  options.inputs[0].path = folder.write("l.npy", features(3));
  options.inputs[1].path = folder.write("r.csv", "1,x\n2,y\n3,x\n");
  options.outputs[0].path = folder.write("a.npy", labels(3));
  options.outputs[1].path = folder.write("b.npy", labels(3));
  const Dataset dataset = open_dataset(options);
  EXPECT_EQ(dataset.row_count(), 3);
  EXPECT_EQ(dataset.form, "NumPy and CSV");
  ASSERT_EQ(dataset.features.size(), 2u);
  EXPECT_EQ(dataset.features[1]->row_shape(), (std::vector<int64_t>{3}));  // no column is a label
  ASSERT_EQ(dataset.targets.size(), 2u);
  EXPECT_EQ(dataset.targets[1]->origin(), folder / "b.npy");
  // Categories are those of the data that it is like: y is number 1 there, and 0 by itself.
  options.inputs[1].path = folder.write("s.csv", "1,y\n2,y\n3,y\n");
  const Dataset other = open_dataset(options, &dataset);
  std::vector<float> row(3);
  other.features[1]->read(0, 1, DType::kFloat32, row.data());
  EXPECT_EQ(row, (std::vector<float>{1, 0, 1}));
}

TEST(Dataset, RowsOfSeveralInputsBelongTogether) {
  const TemporaryFolder folder;
  DatasetOptions options = two_and_two("");
  options.inputs[0].path = folder.write("l.npy", features(3));
  options.inputs[1].path = folder.write("r.txt", "abc");
  expect_error(ErrorKind::kConfig, "[right] " + options.inputs[1].path,
               [&] { open_dataset(options); });
  options.inputs[1].path = folder.write("r.npy", features(4));
  expect_error(ErrorKind::kData, "r.npy: expected 3 rows", [&] { open_dataset(options); });
  options.window = 2;
  expect_error(ErrorKind::kConfig, "received windows", [&] { open_dataset(options); });
}

}  // namespace
}  // namespace plimsoll::data
