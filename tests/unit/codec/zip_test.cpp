#include <gtest/gtest.h>
#include <zip.h>

#include "codec/inflate.h"
#include "codec/zip_reader.h"
#include "codec/zip_writer.h"
#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;
using test::TemporaryFolder;

constexpr int64_t kLarge = 1 << 24;

std::vector<std::byte> written(const std::function<void(ZipWriter&)>& body) {
  auto file = std::make_shared<File>(File::unlinked("/var/tmp"));
  ZipWriter writer(*file);
  body(writer);
  writer.finish();
  std::vector<std::byte> bytes(static_cast<size_t>(file->size()));
  file->read_at(0, bytes);
  return bytes;
}

ZipReader reader_of(const std::vector<std::byte>& bytes) {
  return ZipReader(file_of(bytes, "a.keras"), ErrorKind::kModel);
}

std::vector<std::byte> sample() {
  return written([](ZipWriter& writer) {
    writer.add("metadata.json", "{}");
    writer.add("config.json", noisy_text(3000), ZipMethod::kDeflated);
    ByteSink& sink = writer.begin("model.weights.h5");
    for (int i = 0; i < 10; ++i) sink.write(bytes_of("0123456789"));
    writer.begin("big.npy", ZipMethod::kDeflated).write(bytes_of(noisy_text(200000)));
    writer.add("empty", "");
  });
}

TEST(Zip, ReadsWhatItWrites) {
  const ZipReader reader = reader_of(sample());
  ASSERT_EQ(reader.entries().size(), 5u);
  EXPECT_EQ(reader.entries()[2].name, "model.weights.h5");
  EXPECT_EQ(reader.find("nothing"), nullptr);
  EXPECT_EQ(reader.read_text(*reader.find("config.json"), kLarge), noisy_text(3000));
  EXPECT_EQ(reader.read_text(*reader.find("empty"), kLarge), "");
  const auto weights = reader.open(*reader.find("model.weights.h5"), "/var/tmp");
  EXPECT_EQ(weights->size(), 100);
  EXPECT_EQ(weights->name(), "a.keras/model.weights.h5");
  EXPECT_EQ(read_all(*weights).substr(95), "56789");
  EXPECT_EQ(read_all(*reader.open(*reader.find("big.npy"), "/var/tmp")), noisy_text(200000));
  expect_error(ErrorKind::kModel, "at most 10", [&] { reader.read(*reader.find("big.npy"), 10); });
}

TEST(Zip, TheSameContentGivesTheSameBytes) { EXPECT_EQ(sample(), sample()); }

TEST(Zip, LibzipReadsWhatItWrites) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.zip", text_of(sample()));
  zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, nullptr);
  ASSERT_NE(archive, nullptr);
  EXPECT_EQ(zip_get_num_entries(archive, 0), 5);
  zip_file_t* member = zip_fopen(archive, "config.json", 0);
  std::string text(4000, ' ');
  text.resize(static_cast<size_t>(zip_fread(member, text.data(), text.size())));
  EXPECT_EQ(text, noisy_text(3000));
  zip_fclose(member);
  zip_discard(archive);
}

TEST(Zip, ReadsWhatLibzipWrites) {
  const TemporaryFolder folder;
  const std::string path = folder / "b.zip";
  const std::string text = noisy_text(70000);
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
  zip_file_add(archive, "deflated", zip_source_buffer(archive, text.data(), text.size(), 0), 0);
  const zip_int64_t stored =
      zip_file_add(archive, "dir/stored", zip_source_buffer(archive, "abc", 3, 0), 0);
  zip_set_file_compression(archive, static_cast<zip_uint64_t>(stored), ZIP_CM_STORE, 0);
  zip_set_archive_comment(archive, "a comment", 9);
  ASSERT_EQ(zip_close(archive), 0);
  const ZipReader reader(open_reader(path), ErrorKind::kModel);
  EXPECT_EQ(reader.read_text(*reader.find("deflated"), kLarge), text);
  EXPECT_TRUE(reader.find("deflated")->deflated);
  EXPECT_EQ(reader.read_text(*reader.find("dir/stored"), kLarge), "abc");
}

// Replaces a text of the same length everywhere.
std::vector<std::byte> replaced(std::vector<std::byte> bytes, const std::string& from,
                                const std::string& to) {
  std::string text = text_of(bytes);
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) {
    text.replace(at, from.size(), to);
  }
  return bytes_of(text);
}

TEST(Zip, RefusesTricks) {
  const std::vector<std::byte> two = written([](ZipWriter& writer) {
    writer.add("aaaa.json", "1");
    writer.add("bbbb.json", "2");
  });
  const auto expect_refused = [](const std::vector<std::byte>& bytes, const std::string& part) {
    expect_error(ErrorKind::kModel, part, [&] { reader_of(bytes); });
  };
  expect_refused(replaced(two, "bbbb.json", "aaaa.json"), "two members named \"aaaa.json\"");
  expect_refused(replaced(two, "bbbb.json", "../b.json"), "outside of the archive");
  expect_refused(replaced(two, "bbbb.json", "/bbb.json"), "outside of the archive");
  expect_refused(replaced(two, "bbbb.json", "a\\..\\b.js"), "outside of the archive");
  expect_refused(replaced(two, "bbbb.json", "C:b.json."), "outside of the archive");
  // The directory's entry of the second member: flags at 8, method at 10, sizes at 20 and 24.
  const std::string text = text_of(two);
  const size_t entry = text.rfind("PK\x01\x02");
  const auto changed = [&](size_t at, char value) {
    std::vector<std::byte> copy = two;
    copy[entry + at] = static_cast<std::byte>(value);
    return copy;
  };
  expect_refused(changed(8, 1), "encrypted");
  expect_refused(changed(10, 9), "method 9");
  expect_refused(changed(20, 2), "two sizes");
  expect_refused(changed(42, 0), "overlap");
  expect_refused(changed(44, 1), "outside of the file");
}

TEST(Zip, RefusesBombsBeforeInflating) {
  std::vector<std::byte> bytes = written([](ZipWriter& writer) {
    writer.add("bomb", std::string(10000, '\0'), ZipMethod::kDeflated);
  });
  const size_t entry = text_of(bytes).rfind("PK\x01\x02");
  bytes[entry + 27] = std::byte{0x40};  // a size above 1 GiB
  expect_error(ErrorKind::kModel, "cannot inflate to", [&] { reader_of(bytes); });
  bytes[entry + 27] = std::byte{0};
  bytes[entry + 25] = std::byte{0};  // less than it holds
  const ZipReader reader = reader_of(bytes);
  expect_error(ErrorKind::kModel, "more than the",
               [&] { reader.read(reader.entries()[0], kLarge); });
}

TEST(Zip, FindsDamagedMembers) {
  std::vector<std::byte> bytes = sample();
  const size_t at = text_of(bytes).find("0123456789");
  bytes[at] = std::byte{'x'};
  const ZipReader reader = reader_of(bytes);
  expect_error(ErrorKind::kModel, "checksum",
               [&] { reader.read(*reader.find("model.weights.h5"), kLarge); });
  std::vector<std::byte> header = sample();
  header[text_of(header).find("PK\x03\x04", 10)] = std::byte{'x'};
  const ZipReader denied = reader_of(header);
  expect_error(ErrorKind::kModel, "its own header denies",
               [&] { denied.read(*denied.find("config.json"), kLarge); });
}

TEST(Zip, WhatIsNoArchiveSaysSo) {
  expect_error(ErrorKind::kModel, "no zip archive",
               [] { reader_of(bytes_of("version https://git-lfs.github.com/spec/v1")); });
  expect_error(ErrorKind::kModel, "no zip archive", [] { reader_of({}); });
  EXPECT_TRUE(looks_like_zip(*file_of(sample(), "x")));
  EXPECT_FALSE(looks_like_zip(*file_of(bytes_of("version https://git-lfs"), "x")));
}

TEST(Zip, HoldsManyMembers) {
  const std::vector<std::byte> bytes = written([](ZipWriter& writer) {
    for (int i = 0; i < 300; ++i) writer.add("m" + std::to_string(i), std::to_string(i));
  });
  EXPECT_EQ(reader_of(bytes).read_text(*reader_of(bytes).find("m299"), 10), "299");
}

TEST(Zip, MembersBeyond4GiBAreReadBack) {
  // A sparse file: the member's zeros are never written.
  const TemporaryFolder folder;
  File file = File::create(folder / "large.zip");
  constexpr int64_t kHole = (int64_t{1} << 32) + 1000;
  {
    ZipWriter writer(file);
    writer.add("small", "x");
    writer.finish();
  }
  // By hand: the same archive with its directory after a hole, found through zip64 fields.
  std::vector<std::byte> bytes(static_cast<size_t>(file.size()));
  file.read_at(0, bytes);
  const size_t directory = text_of(bytes).rfind("PK\x01\x02");
  const size_t end = text_of(bytes).rfind("PK\x05\x06");
  const std::span<const std::byte> entry(bytes.data() + directory, end - directory);
  file.resize(kHole);
  file.write_at(kHole, entry);
  std::string record;
  const auto put = [&](uint64_t value, int width) {
    for (int i = 0; i < width; ++i) record += static_cast<char>((value >> (8 * i)) & 0xFF);
  };
  const auto record_offset = static_cast<uint64_t>(kHole) + entry.size();
  put(0x06064B50, 4), put(44, 8), put(45, 2), put(45, 2), put(0, 4), put(0, 4);
  put(1, 8), put(1, 8), put(entry.size(), 8), put(static_cast<uint64_t>(kHole), 8);
  put(0x07064B50, 4), put(0, 4), put(record_offset, 8), put(1, 4);
  put(0x06054B50, 4), put(0, 2), put(0, 2), put(0xFFFF, 2), put(0xFFFF, 2);
  put(0xFFFFFFFF, 4), put(0xFFFFFFFF, 4), put(0, 2);
  file.write_at(static_cast<int64_t>(record_offset), bytes_of(record));
  const ZipReader reader(open_reader(folder / "large.zip"), ErrorKind::kData);
  EXPECT_EQ(reader.read_text(*reader.find("small"), 10), "x");
}

TEST(Zip, DamageNeverCrashes) {
  const std::vector<std::byte> whole = written([](ZipWriter& writer) {
    writer.add("config.json", noisy_text(300), ZipMethod::kDeflated);
    writer.add("weights", noisy_text(200));
  });
  for_each_mutation(whole, 5000, 11, [](std::vector<std::byte> bytes) {
    try {
      const ZipReader reader = reader_of(bytes);
      for (const ZipEntry& entry : reader.entries()) reader.read(entry, 1 << 16);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel) << error.what();
    }
  });
}

}  // namespace
}  // namespace plimsoll::codec
