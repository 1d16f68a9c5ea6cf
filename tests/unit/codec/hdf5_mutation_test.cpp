// Damaged HDF5 files: every one must be read or refused, never crash, hang or take the memory.

#include <gtest/gtest.h>

#include <algorithm>

#include "codec/hdf5/hdf5_reader.h"
#include "codec/hdf5/hdf5_writer.h"
#include "unit/codec/hdf5_oracle.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

// Looks at everything in a file. Elements are read in pieces, since a damaged shape may promise
// any number of them.
void read_everything(const Hdf5Reader& reader, const std::string& path, int depth) {
  reader.attributes(path);
  if (reader.is_dataset(path)) {
    const auto data = reader.open(path);
    if (data->info().type.type_class != Hdf5Type::Class::kNumber) {
      data->read_strings(1 << 16);
      return;
    }
    const int64_t count = std::min<int64_t>(data->info().element_count, 1000);
    std::vector<double> values(static_cast<size_t>(count));
    data->read_as(DType::kFloat64, 0, count, values.data());
    data->read_as(DType::kFloat64, data->info().element_count - count, count, values.data());
    return;
  }
  if (depth == 0) return;
  const std::vector<std::string> names = reader.list(path);
  for (size_t i = 0; i < std::min<size_t>(names.size(), 50); ++i) {
    read_everything(reader, path.empty() ? names[i] : path + "/" + names[i], depth - 1);
  }
}

// Counts the damaged files that were refused.
int refuse_damaged(const std::vector<std::byte>& file, int count, unsigned seed) {
  int refused = 0;
  for_each_mutation(file, count, seed, [&](std::vector<std::byte> bytes) {
    try {
      const Hdf5Reader reader(std::make_shared<MemoryReader>(std::move(bytes), "x.h5"));
      read_everything(reader, "", 4);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel) << error.what();
      ++refused;
    }
  });
  return refused;
}

TEST(Hdf5Mutation, OldStructures) {
  EXPECT_GT(refuse_damaged(oracle::make_sample(), 2000, 1), 200);
}

TEST(Hdf5Mutation, NewStructures) {
  EXPECT_GT(
      refuse_damaged(oracle::make_sample({.structures = oracle::Structures::kVersion18}), 3000, 2),
      300);
}

// A small file, so that most bytes of it are structure.
TEST(Hdf5Mutation, DenseDamage) {
  Hdf5Tree tree;
  tree.add_dataset("a/b", DType::kFloat32, std::vector<int64_t>{2});
  tree.set_attribute("a", "names", std::vector<std::string>{"x", "y"});
  class Sink final : public ByteSink {
   public:
    std::vector<std::byte> bytes;
    void write(std::span<const std::byte> more) override {
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
  } sink;
  Hdf5Writer writer(tree, sink);
  writer.write(std::vector<std::byte>(8));
  EXPECT_GT(refuse_damaged(sink.bytes, 3000, 3), 2500);
}

// Structures of version 1 have no checksums: damage reaches the parser itself.
TEST(Hdf5Mutation, EveryByteOfTheSuperblockAndRootOfAnOldFile) {
  const std::vector<std::byte> file = oracle::make_sample({.chunked = false});
  for (size_t at = 0; at < std::min<size_t>(file.size(), 2000); ++at) {
    for (const int value : {0x01, 0xFF}) {
      std::vector<std::byte> bytes = file;
      bytes[at] = static_cast<std::byte>(value);
      try {
        const Hdf5Reader reader(std::make_shared<MemoryReader>(std::move(bytes), "x.h5"));
        read_everything(reader, "", 4);
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), ErrorKind::kModel) << error.what();
      }
    }
  }
}

TEST(Hdf5Mutation, EveryCut) {
  const std::vector<std::byte> file = oracle::make_sample({.chunked = false});
  for (size_t size = 0; size < file.size(); size += 37) {
    try {
      const Hdf5Reader reader(std::make_shared<MemoryReader>(
          std::vector<std::byte>(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)),
          "x.h5"));
      read_everything(reader, "", 4);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kModel) << error.what();
    }
  }
}

}  // namespace
}  // namespace plimsoll::codec
