// Real model files from the field, where there are any: PLIMSOLL_TEST_DATA names a folder with
// wild/keras_h5, wild/keras_v3 and wild/npz in it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "codec/hdf5/hdf5_reader.h"
#include "codec/npy.h"
#include "codec/zip_reader.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  const char* root = std::getenv("PLIMSOLL_TEST_DATA");
  if (root == nullptr) return files;
  const std::filesystem::path path = std::filesystem::path(root) / "wild" / folder;
  if (!std::filesystem::is_directory(path)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Every number of every dataset as float64; returns how many datasets there were.
int read_weights(const Hdf5Reader& reader) {
  int count = 0;
  for (const std::string& path : reader.list_datasets("")) {
    const auto data = reader.open(path);
    if (data->info().type.type_class != Hdf5Type::Class::kNumber) continue;
    std::vector<double> values(static_cast<size_t>(data->info().element_count));
    data->read_as(DType::kFloat64, 0, data->info().element_count, values.data());
    ++count;
  }
  return count;
}

TEST(WildFiles, EveryKerasH5IsRead) {
  const std::vector<std::string> files = files_in("keras_h5");
  if (files.empty()) GTEST_SKIP() << "PLIMSOLL_TEST_DATA names no folder with wild/keras_h5";
  int datasets = 0;
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const Hdf5Reader reader(open_reader(file));
    datasets += read_weights(reader);
    for (const Hdf5Attribute& attribute : reader.attributes("")) {
      EXPECT_NE(attribute.type.type_class, Hdf5Type::Class::kOther) << attribute.name;
    }
  }
  EXPECT_GE(datasets, static_cast<int>(files.size()) / 2);
}

TEST(WildFiles, EveryKerasArchiveIsReadInPlace) {
  const std::vector<std::string> files = files_in("keras_v3");
  if (files.empty()) GTEST_SKIP() << "PLIMSOLL_TEST_DATA names no folder with wild/keras_v3";
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const ZipReader zip(open_reader(file), ErrorKind::kModel);
    ASSERT_NE(zip.find("config.json"), nullptr);
    EXPECT_TRUE(zip.read_text(*zip.find("config.json"), 1 << 24).starts_with("{"));
    const ZipEntry* weights = zip.find("model.weights.h5");
    ASSERT_NE(weights, nullptr);
    EXPECT_FALSE(weights->deflated);
    const auto part = zip.open(*weights, "/var/tmp");
    EXPECT_GT(part->offset(), 0);
    EXPECT_GT(read_weights(Hdf5Reader(part)), 0);
  }
}

TEST(WildFiles, EveryArrayHasAHeader) {
  const std::vector<std::string> files = files_in("npz");
  if (files.empty()) GTEST_SKIP() << "PLIMSOLL_TEST_DATA names no folder with wild/npz";
  int arrays = 0;
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const auto reader = open_reader(file);
    try {
      if (looks_like_zip(*reader)) {
        const ZipReader zip(reader, ErrorKind::kData);
        for (const ZipEntry& entry : zip.entries()) {
          if (!entry.name.ends_with(".npy")) continue;
          read_npy_header(*zip.open(entry, "/var/tmp"));
          ++arrays;
        }
      } else if (looks_like_npy(*reader)) {
        read_npy_header(*reader);
        ++arrays;
      }
    } catch (const Error& error) {
      // Some hold pickled objects or were never fetched whole: refused, with a reason.
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    }
  }
  EXPECT_GT(arrays, 0);
}

TEST(WildFiles, DamagedKerasFilesAreReadOrRefused) {
  const std::vector<std::string> files = files_in("keras_h5");
  if (files.empty()) GTEST_SKIP() << "PLIMSOLL_TEST_DATA names no folder with wild/keras_h5";
  for (size_t i = 0; i < files.size(); i += 40) {
    SCOPED_TRACE(files[i]);
    const auto reader = open_reader(files[i]);
    std::vector<std::byte> bytes(static_cast<size_t>(std::min<int64_t>(reader->size(), 100000)));
    reader->read_at(0, bytes);
    for_each_mutation(bytes, 100, static_cast<unsigned>(i), [](std::vector<std::byte> damaged) {
      try {
        read_weights(Hdf5Reader(std::make_shared<MemoryReader>(std::move(damaged), "x.h5")));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kModel) << error.what();
      }
    });
  }
}

}  // namespace
}  // namespace plimsoll::codec
