#include "data/rows/row_source.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"
#include "unit/data/arrays.h"

namespace plimsoll::data {
namespace {

using codec::bytes_of;
using codec::deflated;
using codec::text_of;
using test::expect_error;
using test::TemporaryFolder;

template <typename Number>
std::vector<Number> read(RowSource& source, DType dtype, int64_t first = 0, int64_t count = -1) {
  if (count < 0) count = source.row_count() - first;
  int64_t elements = count;
  for (int64_t extent : source.row_shape()) elements *= extent;
  std::vector<Number> values(static_cast<size_t>(elements));
  source.read(first, count, dtype, values.data());
  return values;
}

// One array of shape (6, 2, 3) with the values 0 … 35, in every element type.
template <typename Number>
void expect_counts(const TemporaryFolder& folder, bool big_endian) {
  const std::string path =
      folder.write("a.npy", npy_text<Number>({6, 2, 3}, counting<Number>(36), false, big_endian));
  const auto source = open_rows(path, "");
  EXPECT_EQ(source->row_count(), 6);
  EXPECT_EQ(source->row_shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(source->origin(), path);
  EXPECT_EQ(read<float>(*source, DType::kFloat32), counting<float>(36));
  EXPECT_EQ(read<double>(*source, DType::kFloat64), counting<double>(36));
  EXPECT_EQ(read<int32_t>(*source, DType::kInt32), counting<int32_t>(36));
  EXPECT_EQ(read<float>(*source, DType::kFloat32, 2, 1),
            (std::vector<float>{12, 13, 14, 15, 16, 17}));
}

TEST(RowSource, ReadsEveryElementType) {
  const TemporaryFolder folder;
  for (bool big_endian : {false, true}) {
    expect_counts<uint8_t>(folder, big_endian);
    expect_counts<int8_t>(folder, big_endian);
    expect_counts<int16_t>(folder, big_endian);
    expect_counts<uint16_t>(folder, big_endian);
    expect_counts<int32_t>(folder, big_endian);
    expect_counts<uint32_t>(folder, big_endian);
    expect_counts<int64_t>(folder, big_endian);
    expect_counts<uint64_t>(folder, big_endian);
    expect_counts<float>(folder, big_endian);
    expect_counts<double>(folder, big_endian);
  }
}

TEST(RowSource, TurnsFortranOrderAround) {
  const TemporaryFolder folder;
  // Element (i, j, k) has the value 100 i + 10 j + k; the file runs through i fastest.
  std::vector<float> in_file;
  std::vector<float> in_order;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 5; ++i) in_file.push_back(static_cast<float>(100 * i + 10 * j + k));
    }
  }
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) in_order.push_back(static_cast<float>(100 * i + 10 * j + k));
    }
  }
  const std::string path = folder.write("f.npy", npy_text<float>({5, 3, 4}, in_file, true));
  const auto source = open_rows(path, "/var/tmp");
  EXPECT_EQ(read<float>(*source, DType::kFloat32), in_order);
  EXPECT_EQ(source->origin(), path);
  EXPECT_EQ(folder.count_entries(), 1);
}

TEST(RowSource, TurnsLargeFortranArraysAroundInTiles) {
  const TemporaryFolder folder;
  constexpr int64_t kRows = 3000;
  constexpr int64_t kColumns = 900;  // 10.8 MB: more than one tile
  std::vector<float> in_file(kRows * kColumns);
  for (int64_t j = 0; j < kColumns; ++j) {
    for (int64_t i = 0; i < kRows; ++i) {
      in_file[static_cast<size_t>(j * kRows + i)] = static_cast<float>(i * kColumns + j);
    }
  }
  const auto source = open_rows(
      folder.write("f.npy", npy_text<float>({kRows, kColumns}, in_file, true)), "/var/tmp");
  EXPECT_EQ(read<float>(*source, DType::kFloat32), counting<float>(kRows * kColumns));
}

TEST(RowSource, LargeArraysStreamThroughABoundedBuffer) {
  const TemporaryFolder folder;
  const auto source = open_rows(
      folder.write("a.npy", npy_text<double>({300, 1000}, counting<double>(300000, 0.5))), "");
  EXPECT_LE(source->resident_bytes(), 128_KiB);
  EXPECT_EQ(read<float>(*source, DType::kFloat32), counting<float>(300000, 0.5));
  const std::vector<double> last = read<double>(*source, DType::kFloat64, 299, 1);
  EXPECT_EQ(last.front(), 299000 * 0.5);
  EXPECT_EQ(last.back(), 299999 * 0.5);
  source->expect_order(true);
  source->expect_order(false);
}

TEST(RowSource, SmallArraysAreKept) {
  const TemporaryFolder folder;
  const auto source =
      open_rows(folder.write("a.npy", npy_text<float>({10, 4}, counting<float>(40))), "");
  EXPECT_EQ(source->resident_bytes(), Bytes(160));
}

TEST(RowSource, ReadsIdxPlainAndCompressed) {
  const TemporaryFolder folder;
  const std::string text = idx_text({4, 2, 2}, counting<uint8_t>(16));
  const auto plain = open_rows(folder.write("train-images-idx3-ubyte", text), "");
  EXPECT_EQ(read<float>(*plain, DType::kFloat32), counting<float>(16));
  EXPECT_EQ(plain->stored_dtype(), DType::kUInt8);
  const std::string compressed = text_of(deflated(text, 31));
  const auto inflated = open_rows(folder.write("train-images.gz", compressed), "/var/tmp");
  EXPECT_EQ(read<float>(*inflated, DType::kFloat32), counting<float>(16));
  EXPECT_EQ(folder.count_entries(), 2);
  expect_error(ErrorKind::kConfig, "/dev/shm",
               [&] { open_rows(folder / "train-images.gz", "/dev/shm/none"); });
}

TEST(RowSource, ReadsMembersOfArchives) {
  const TemporaryFolder folder;
  const std::string path =
      write_npz(folder, "a.npz",
                {{"x.npy", npy_text<float>({3, 2}, counting<float>(6))},
                 {"y.npy", npy_text<int64_t>({3}, {2, 1, 0}), codec::ZipMethod::kDeflated}});
  const auto x = open_npz_member(path, "x", "");
  EXPECT_EQ(read<float>(*x, DType::kFloat32), counting<float>(6));
  EXPECT_EQ(x->origin(), path + "/x.npy");
  const auto y = open_npz_member(path, "y", "/var/tmp");
  EXPECT_EQ(read<int32_t>(*y, DType::kInt32), (std::vector<int32_t>{2, 1, 0}));
  EXPECT_TRUE(y->row_shape().empty());
  expect_error(ErrorKind::kData, "received an archive of x, y. Did you mean \"x\"?",
               [&] { open_npz_member(path, "X", ""); });
  expect_error(ErrorKind::kData, "archive of several", [&] { open_rows(path, ""); });
}

TEST(RowSource, ReadsTheUsersMemory) {
  const std::vector<double> values = counting<double>(12);
  const auto source = rows_in_memory(values.data(), DType::kFloat64, 4, {3}, "x");
  EXPECT_EQ(source->resident_bytes(), Bytes(0));
  EXPECT_EQ(read<float>(*source, DType::kFloat32, 1, 2), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  const bool flags[3] = {true, false, true};
  const auto bools = rows_in_memory(flags, DType::kBool, 3, {}, "y");
  EXPECT_EQ(read<float>(*bools, DType::kFloat32), (std::vector<float>{1, 0, 1}));
  expect_error(ErrorKind::kData, "x: expected rows",
               [&] { rows_in_memory(values.data(), DType::kFloat64, 0, {3}, "x"); });
}

TEST(RowSource, ValuesThatDoNotFitNameTheirRow) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("y.npy", npy_text<double>({4, 2}, {0, 1, 2, 3, 4, 5.5, 6, 7}));
  const auto source = open_rows(path, "");
  expect_error(ErrorKind::kData,
               "y.npy: row 2: expected a whole number that int32 can hold, "
               "received 5.5",
               [&] { read<int32_t>(*source, DType::kInt32); });
  EXPECT_FALSE(source->can_read_as(DType::kUInt8));
  expect_error(ErrorKind::kData, "can be read as uint8, received float64",
               [&] { read<uint8_t>(*source, DType::kUInt8); });
  // The same after the staging buffer, in a later piece.
  std::vector<double> many(40000, 1.0);
  many[39999] = 1e10;
  const auto large = open_rows(folder.write("z.npy", npy_text<double>({40000}, many)), "");
  expect_error(ErrorKind::kData, "row 39999", [&] { read<int32_t>(*large, DType::kInt32); });
}

TEST(RowSource, RefusesWhatIsNoArray) {
  const TemporaryFolder folder;
  const auto expect_refused = [&](const std::string& content, const std::string& part) {
    const std::string path = folder.write("bad", content);
    expect_error(ErrorKind::kData, part, [&] { open_rows(path, ""); });
  };
  expect_refused("a,b\n1,2\n", "expected an .npy, .npz or IDX file");
  expect_refused("", "expected an .npy, .npz or IDX file");
  expect_refused(npy_text<float>({0, 3}, {}), "expected rows of numbers");
  expect_refused(npy_text<float>({}, {1}), "expected rows of numbers");
  expect_refused(npy_text<float>({2, 3}, {1, 2}), "cut short");
  expect_refused(idx_text({5, 5}, counting<uint8_t>(24)), "as its header says, received 24");
  expect_refused(std::string(20, '\0'), "expected an IDX file");
  expect_refused(text_of(deflated("nothing of value", 31)), "expected an .npy, .npz or IDX file");
  expect_error(ErrorKind::kIo, "No such file", [] { open_rows("/no/such.npy", ""); });
}

}  // namespace
}  // namespace plimsoll::data
