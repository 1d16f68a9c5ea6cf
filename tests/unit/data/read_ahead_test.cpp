// Reading ahead past the page cache gives the bytes and the errors of reading.

#include "data/rows/read_ahead.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "data/dataset.h"
#include "unit/base/expect_error.h"
#include "unit/data/arrays.h"

namespace plimsoll::data {
namespace {

using test::expect_error;
using Role = InputBinding::Role;

constexpr int64_t kFileBytes = 5'000'003;

std::string bytes_text() {
  std::string text(kFileBytes, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + i / 4096);
  return text;
}

// [begin, end) by leases and, where there is none, by the file; `leased` counts the bytes of
// leases.
std::string read(ReadAhead& ahead, const File& file, int64_t begin, int64_t end, int64_t& leased) {
  std::string got;
  while (begin < end) {
    ReadAhead::Lease lease = ahead.take(begin, end);
    std::span<const std::byte> bytes = lease.bytes();
    std::vector<std::byte> own;
    if (bytes.empty()) {
      own.resize(static_cast<size_t>(std::min<int64_t>(end - begin, 5000)));
      file.read_at(begin, own);
      bytes = own;
    } else {
      lease.use(std::ssize(bytes));
      leased += std::ssize(bytes);
    }
    got.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    begin += std::ssize(bytes);
  }
  return got;
}

class ReadAheadTest : public testing::Test {
 protected:
  ReadAheadTest() : path_(folder_.write("bytes", bytes_text())), file_(File::open_read(path_)) {}
  void SetUp() override {
    if (!ReadAhead::works_with(file_)) GTEST_SKIP() << "the file system has no direct reads";
  }

  const test::TemporaryFolder folder_;
  std::string path_;
  File file_;
};

TEST_F(ReadAheadTest, GivesTheBytesOfTheFile) {
  const std::string text = bytes_text();
  ReadAhead ahead(file_, {4, 500'000});
  int64_t leased = 0;
  // More than the buffers hold, with edges in the middle of sectors, to the last byte.
  ahead.ask(17, 1'900'001);
  EXPECT_EQ(read(ahead, file_, 17, 1'900'001, leased), text.substr(17, 1'900'001 - 17));
  ahead.ask(1'900'001, kFileBytes);
  EXPECT_EQ(read(ahead, file_, 1'900'001, kFileBytes, leased), text.substr(1'900'001));
  EXPECT_EQ(leased, kFileBytes - 17);
  EXPECT_TRUE(ahead.take(17, 20).bytes().empty()) << "taken before";
}

TEST_F(ReadAheadTest, ServesSeveralThreads) {
  const std::string text = bytes_text();
  ReadAhead ahead(file_, {3, 300'000});
  for (int turn = 0; turn < 5; ++turn) {
    ahead.ask(0, 4'000'000);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        int64_t leased = 0;
        const int64_t begin = i * 1'000'000;
        const std::string got = read(ahead, file_, begin, begin + 1'000'000, leased);
        EXPECT_EQ(got, text.substr(static_cast<size_t>(begin), 1'000'000));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_F(ReadAheadTest, WhatNobodyTookMakesRoom) {
  ReadAhead ahead(file_, {2, 100'000});
  for (int64_t i = 0; i < 2000; ++i) ahead.ask(i * 100, i * 100 + 100);
  const std::string text = bytes_text();
  int64_t leased = 0;
  for (int64_t begin = 1'000'000; begin < 4'000'000; begin += 100'000) {
    ahead.ask(begin, begin + 100'000);
    EXPECT_EQ(read(ahead, file_, begin, begin + 100'000, leased),
              text.substr(static_cast<size_t>(begin), 100'000));
  }
}

TEST_F(ReadAheadTest, BeyondTheEndThereIsNothingToTake) {
  ReadAhead ahead(file_, {2, 100'000});
  ahead.ask(kFileBytes - 10, kFileBytes + 10);
  EXPECT_TRUE(ahead.take(kFileBytes - 10, kFileBytes).bytes().empty());
}

std::vector<float> all_rows(Dataset& dataset, Shuffle shuffle, int64_t elements) {
  BatchSource batches(dataset, {{Role::kFeatures, 0, "x", DType::kFloat32, elements, 0}},
                      {.batch = 128, .shuffle = shuffle, .seed = 5});
  std::vector<float> all(static_cast<size_t>(2 * dataset.row_count() * elements));
  float* out = all.data();
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (int64_t i = 0; i < batches.batch_count(); ++i) {
      batches.select(epoch, i);
      for (int64_t row = 0; row < batches.rows_in(i); row += 50) {
        const int64_t rows = std::min<int64_t>(50, batches.rows_in(i) - row);
        batches.fill(0, row, rows, out);
        out += rows * elements;
      }
    }
  }
  return all;
}

TEST_F(ReadAheadTest, ArraysReadTheSame) {
  constexpr int64_t kRows = 700;
  constexpr int64_t kElements = 1001;
  const std::string wide = folder_.write(
      "wide.npy", npy_text<double>({kRows, kElements}, counting<double>(kRows * kElements)));
  const std::string same = folder_.write(
      "same.npy", npy_text<float>({kRows, kElements}, counting<float>(kRows * kElements)));
  for (const std::string& path : {wide, same}) {
    for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kBlock}) {
      Dataset plain = open_dataset(path, "", "", "");
      Dataset ahead = open_dataset(path, "", "", "");
      for (const int64_t slots : {2, 5, 40}) {
        ahead.features[0]->grant_ahead(Bytes(slots * (300 << 10)), 8, 131);
        EXPECT_EQ(all_rows(ahead, shuffle, kElements), all_rows(plain, shuffle, kElements));
      }
    }
  }
}

TEST_F(ReadAheadTest, AFileThatIsCutMeanwhileIsNamed) {
  constexpr int64_t kRows = 700;
  const std::string path =
      folder_.write("x.npy", npy_text<double>({kRows, 1000}, counting<double>(kRows * 1000)));
  Dataset dataset = open_dataset(path, "", "", "");
  dataset.features[0]->grant_ahead(4_MiB, 1, 256);
  std::filesystem::resize_file(path, 2'000'000);
  expect_error(ErrorKind::kIo, "x.npy: expected at least",
               [&] { all_rows(dataset, Shuffle::kNone, 1000); });
}

TEST(Dataset, LabelsAreKeptWhereRowsAreShuffledAndThereIsRoom) {
  constexpr int64_t kRows = 60'000;
  const test::TemporaryFolder folder;
  const std::string x =
      folder.write("x.npy", npy_text<float>({kRows, 20}, counting<float>(kRows * 20)));
  const std::string y = folder.write("y.npy", npy_text<int64_t>({kRows}, counting<int64_t>(kRows)));
  const Bytes labels(kRows * 8);
  Dataset plain = open_dataset(x, y, "", "");
  Dataset kept = open_dataset(x, y, "", "");
  EXPECT_EQ(plain.wants_ahead(128, Shuffle::kFull), labels);
  EXPECT_EQ(plain.wants_ahead(128, Shuffle::kNone), Bytes(0));
  const auto read_labels = [](Dataset& dataset) {
    BatchSource batches(dataset, {{Role::kTarget, 0, "y", DType::kInt64, 1, 0}},
                        {.batch = 1000, .shuffle = Shuffle::kFull, .seed = 5});
    std::vector<int64_t> all(kRows);
    for (int64_t i = 0; i < batches.batch_count(); ++i) {
      batches.select(0, i);
      batches.fill(0, 0, 1000, all.data() + i * 1000);
    }
    return all;
  };
  kept.grant_ahead(labels, 128, Shuffle::kFull);
  // From memory: the file is no longer what it was.
  std::filesystem::copy_file(y, y + ".before");
  folder.write("y.npy", npy_text<int64_t>({kRows}, std::vector<int64_t>(kRows)));
  const std::vector<int64_t> from_memory = read_labels(kept);
  kept.grant_ahead(Bytes(), 128, Shuffle::kFull);
  EXPECT_EQ(read_labels(kept), std::vector<int64_t>(kRows));
  std::filesystem::copy_file(y + ".before", y, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(from_memory, read_labels(plain));
  kept.grant_ahead(labels - Bytes(1), 128, Shuffle::kFull);  // not enough: read row by row
  EXPECT_EQ(read_labels(kept), from_memory);
}

// Fewer than six usual pieces are made smaller, down to 128 KiB; a grant is never passed.
TEST(ReadAheadShape, SmallGrantsAreCutIntoMorePieces) {
  constexpr int64_t kKiB = 1024;
  const auto shape = [](int64_t granted) {
    return ReadAhead::shape_for(1, 8192 * kKiB, Bytes(granted));
  };
  const ReadAhead::Shape all = shape(int64_t{1} << 40);
  EXPECT_EQ(all.slots, 32);  // two turns of 8 MiB
  EXPECT_EQ(all.piece_bytes, 512 * kKiB);
  EXPECT_EQ(shape(all.bytes().count()).slots, all.slots);
  EXPECT_EQ(shape(6 * all.slot_bytes()).piece_bytes, 512 * kKiB);
  EXPECT_EQ(shape(6 * all.slot_bytes() - 1).piece_bytes, 256 * kKiB);
  EXPECT_EQ(shape(2048 * kKiB).piece_bytes, 256 * kKiB);
  EXPECT_EQ(shape(512 * kKiB).piece_bytes, 128 * kKiB);
  EXPECT_EQ(shape(0).slots, 0);
  for (int64_t granted = 0; granted < 20000 * kKiB; granted += 321 * kKiB) {
    EXPECT_LE(shape(granted).bytes(), Bytes(granted));
  }
}

TEST(Dataset, SmallFilesWantNothingAhead) {
  const test::TemporaryFolder folder;
  const std::string path =
      folder.write("x.npy", npy_text<double>({700, 1000}, counting<double>(700'000)));
  const Dataset dataset = open_dataset(path, "", "", "");
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kBlock, Shuffle::kFull}) {
    EXPECT_EQ(dataset.wants_ahead(32, shuffle), Bytes(0));
  }
}

}  // namespace
}  // namespace plimsoll::data
