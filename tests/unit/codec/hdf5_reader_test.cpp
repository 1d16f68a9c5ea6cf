#include "codec/hdf5/hdf5_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/base/expect_error.h"
#include "unit/codec/hdf5_oracle.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;

Hdf5Reader reader_of(std::vector<std::byte> bytes) {
  return Hdf5Reader(std::make_shared<MemoryReader>(std::move(bytes), "a.h5"));
}

std::vector<float> floats_of(const Hdf5Reader& reader, const std::string& path) {
  const std::unique_ptr<Hdf5Dataset> data = reader.open(path);
  std::vector<float> values(static_cast<size_t>(data->info().element_count));
  data->read_as(DType::kFloat32, 0, data->info().element_count, values.data());
  return values;
}

using oracle::Structures;

class Hdf5ReaderTest : public testing::TestWithParam<Structures> {
 protected:
  oracle::SampleOptions options() const { return {.structures = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(OldAndNewStructures, Hdf5ReaderTest,
                         testing::Values(Structures::kOldest, Structures::kVersion18,
                                         Structures::kNewest));

TEST_P(Hdf5ReaderTest, ListsGroups) {
  const Hdf5Reader reader = reader_of(oracle::make_sample(options()));
  EXPECT_EQ(reader.list("group"), (std::vector<std::string>{"f64", "i32", "i8", "inner"}));
  EXPECT_EQ(reader.list("/many/"), (std::vector<std::string>{"member_0", "member_1", "member_2"}));
  EXPECT_TRUE(reader.exists("group/inner/f32"));
  EXPECT_FALSE(reader.exists("group/inner/f32/more"));
  EXPECT_TRUE(reader.is_group(""));
  EXPECT_TRUE(reader.is_dataset("scalar"));
  EXPECT_FALSE(reader.is_group("scalar"));
  EXPECT_EQ(reader.list_datasets("group"),
            (std::vector<std::string>{"group/f64", "group/i32", "group/i8", "group/inner/f32"}));
}

TEST_P(Hdf5ReaderTest, ReadsNumbersOfAllTypes) {
  const Hdf5Reader reader = reader_of(oracle::make_sample(options()));
  EXPECT_EQ(floats_of(reader, "group/inner/f32"), oracle::sample_values(1, 15));
  EXPECT_EQ(floats_of(reader, "group/f64"), oracle::sample_values(2, 24));
  EXPECT_EQ(floats_of(reader, "group/i8"), oracle::sample_values(3, 10));
  EXPECT_EQ(floats_of(reader, "group/i32"), oracle::sample_values(4, 10));
  EXPECT_EQ(floats_of(reader, "scalar"), oracle::sample_values(5, 1));
  EXPECT_EQ(floats_of(reader, "compact"), oracle::sample_values(6, 6));
  const auto data = reader.open("group/f64");
  EXPECT_EQ(data->info().shape, (std::vector<int64_t>{4, 2, 3}));
  EXPECT_EQ(to_string(data->info().type.number), "big-endian float64");
  std::vector<int32_t> part(5);
  data->read_as(DType::kInt32, 7, 5, part.data());
  const std::vector<float> all = oracle::sample_values(2, 24);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(static_cast<float>(part[i]), all[7 + i]);
}

TEST_P(Hdf5ReaderTest, ReadsAttributes) {
  const Hdf5Reader reader = reader_of(oracle::make_sample(options()));
  const std::optional<std::string> config = reader.text_attribute("", "model_config");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->size(), 5028u);
  EXPECT_TRUE(config->starts_with("{\"class_name\": \"Sequential\""));
  EXPECT_EQ(reader.texts_attribute("/", "layer_names"),
            (std::vector<std::string>{"dense_1", "conv2d", "flatten"}));
  EXPECT_EQ(reader.texts_attribute("/", "variable_list"),
            (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(reader.texts_attribute("/", "split_names"),
            (std::vector<std::string>{"dense_1", "conv2d", "flatten"}));
  EXPECT_EQ(reader.texts_attribute("/", "no_names"), std::vector<std::string>{});
  EXPECT_EQ(reader.texts_attribute("/", "absent"), std::nullopt);
  EXPECT_EQ(reader.text_attribute("/", "absent"), std::nullopt);
  const std::optional<Hdf5Attribute> numbers = reader.attribute("group/inner/f32", "numbers");
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->shape, std::vector<int64_t>{4});
  EXPECT_EQ(to_string(numbers->type.number), "big-endian int32");
  EXPECT_EQ(number_text(numbers->type.number, numbers->raw.data() + 4), "-2");
  expect_error(ErrorKind::kModel, "one text", [&] { reader.text_attribute("", "layer_names"); });
  expect_error(ErrorKind::kModel, "list of texts",
               [&] { reader.texts_attribute("group/inner/f32", "numbers"); });
}

TEST_P(Hdf5ReaderTest, ReadsChunksThroughAllFilters) {
  const Hdf5Reader reader = reader_of(oracle::make_sample(options()));
  if (GetParam() == Structures::kNewest) {
    expect_error(ErrorKind::kModel, "a new kind of index", [&] { reader.open("chunks/plain"); });
    return;
  }
  constexpr size_t kCount = 9 * 17 * 3;
  EXPECT_EQ(floats_of(reader, "chunks/plain"), oracle::sample_values(21, kCount));
  EXPECT_EQ(floats_of(reader, "chunks/deflate"), oracle::sample_values(22, kCount));
  EXPECT_EQ(floats_of(reader, "chunks/all"), oracle::sample_values(23, kCount));
  EXPECT_EQ(floats_of(reader, "chunks/unwritten"), std::vector<float>(kCount, 7.5f));
  // Any range, also one that begins and ends inside chunks.
  const auto data = reader.open("chunks/all");
  const std::vector<float> all = oracle::sample_values(23, kCount);
  for (int64_t begin : {0, 1, 50, 458}) {
    std::vector<float> part(static_cast<size_t>(std::min<int64_t>(77, kCount - begin)));
    data->read_as(DType::kFloat32, begin, static_cast<int64_t>(part.size()), part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + begin));
  }
}

// One below what is decoded in memory, and one that goes through files.
TEST(Hdf5Reader, ChunksOfAnySize) {
  for (const int rows : {300, 3000}) {
    const Hdf5Reader reader = reader_of(oracle::make_one_chunk(rows));
    const auto data = reader.open("x", "/var/tmp");
    EXPECT_EQ(data->resident_bytes() > (1 << 20), rows == 300);
    const auto count = static_cast<size_t>(rows) * 700;
    EXPECT_EQ(floats_of(reader, "x"), oracle::sample_values(5, count));
  }
  std::vector<std::byte> damaged = oracle::make_one_chunk(3000);
  damaged[damaged.size() / 2] ^= std::byte{1};
  expect_error(ErrorKind::kModel, "a chunk", [&] { floats_of(reader_of(damaged), "x"); });
}

TEST(Hdf5Reader, ReadsGroupsOfManyNodes) {
  const Hdf5Reader reader = reader_of(oracle::make_sample({.group_members = 1000}));
  const std::vector<std::string> names = reader.list("many");
  ASSERT_EQ(names.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_TRUE(reader.is_group("many/member_999"));
}

TEST(Hdf5Reader, AFileAfterAUserBlockIsFound) {
  std::vector<std::byte> bytes = oracle::make_sample();
  EXPECT_TRUE(looks_like_hdf5(MemoryReader(bytes, "x")));
  EXPECT_FALSE(looks_like_hdf5(MemoryReader(bytes_of("version https://git-lfs"), "x")));
  expect_error(ErrorKind::kModel, "without HDF5's signature",
               [] { reader_of(bytes_of("version https://git-lfs.github.com/spec/v1")); });
  expect_error(ErrorKind::kModel, "without HDF5's signature", [] { reader_of({}); });
}

TEST(Hdf5Reader, MissingNamesGetASuggestion) {
  const Hdf5Reader reader = reader_of(oracle::make_sample());
  expect_error(ErrorKind::kModel, "Did you mean \"inner\"?",
               [&] { reader.open("group/iner/f32"); });
  expect_error(ErrorKind::kModel, "expected a dataset \"group\", received a group",
               [&] { reader.open("group"); });
  expect_error(ErrorKind::kModel, "expected a group \"scalar\", received a dataset",
               [&] { reader.list("scalar"); });
  expect_error(ErrorKind::kModel, "received none", [&] { reader.attributes("nowhere"); });
}

TEST(Hdf5Reader, WhatDoesNotFitIsNotRead) {
  const Hdf5Reader reader = reader_of(oracle::make_sample());
  const auto data = reader.open("group/i8");
  std::vector<int64_t> wide(10);
  data->read_as(DType::kInt64, 0, 10, wide.data());
  EXPECT_EQ(static_cast<float>(wide[3]), oracle::sample_values(3, 10)[3]);
  expect_error(ErrorKind::kModel, "expected texts, received int8",
               [&] { data->read_strings(1000); });
  expect_error(ErrorKind::kModel, "bool can hold, received int8",
               [&] { data->read_as(DType::kBool, 0, 1, wide.data()); });
}

TEST(Hdf5Reader, RefusesByName) {
  expect_error(ErrorKind::kModel, "contains itself",
               [] { reader_of(oracle::make_cycle()).list_datasets(""); });
  expect_error(ErrorKind::kModel, "a soft link \"alias\"",
               [] { reader_of(oracle::make_soft_link()).list(""); });
  expect_error(ErrorKind::kModel, "fractal heap", [] {
    reader_of(oracle::make_sample({.structures = Structures::kNewest, .group_members = 100}))
        .list("many");
  });
}

}  // namespace
}  // namespace plimsoll::codec
