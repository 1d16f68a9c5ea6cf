#include "codec/inflate.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;

std::string inflate_text(const ByteReader& source, DeflateForm form,
                         const InflateBounds& bounds = {}) {
  std::string text;
  const int64_t count = inflate_stream(source, form, bounds, [&](std::span<const std::byte> piece) {
    EXPECT_LE(piece.size(), 64u * 1024);
    text += text_of(piece);
  });
  EXPECT_EQ(count, static_cast<int64_t>(text.size()));
  return text;
}

TEST(Inflate, ReadsAllThreeForms) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{65536}, size_t{300000}}) {
    const std::string text = noisy_text(size);
    EXPECT_EQ(inflate_text(MemoryReader(deflated(text, 31), "x"), DeflateForm::kGzip), text);
    EXPECT_EQ(inflate_text(MemoryReader(deflated(text, 15), "x"), DeflateForm::kZlib), text);
    EXPECT_EQ(inflate_text(MemoryReader(deflated(text, -15), "x"), DeflateForm::kRaw), text);
  }
}

TEST(Inflate, JoinsGzipMembersAndSkipsPadding) {
  std::vector<std::byte> bytes = deflated("one ", 31);
  for (std::byte b : deflated("two", 31)) bytes.push_back(b);
  bytes.resize(bytes.size() + 1000);
  EXPECT_EQ(inflate_text(MemoryReader(bytes, "x"), DeflateForm::kGzip), "one two");
  for (std::byte b : bytes_of("garbage")) bytes.push_back(b);
  expect_error(ErrorKind::kData, "damaged stream",
               [&] { inflate_text(MemoryReader(bytes, "x"), DeflateForm::kGzip); });
}

TEST(Inflate, StopsAtTheBound) {
  const MemoryReader bomb(deflated(std::string(1 << 20, '\0'), 31), "bomb.gz");
  EXPECT_EQ(inflate_text(bomb, DeflateForm::kGzip, {1 << 20}).size(), 1u << 20);
  expect_error(ErrorKind::kModel, "bomb.gz: expected compressed data, received more than the 1000",
               [&] {
                 inflate_text(bomb, DeflateForm::kGzip, {1000, ErrorKind::kModel});
               });
}

TEST(Inflate, EveryCutIsAnErrorAndNothingHangs) {
  const std::vector<std::byte> whole = deflated(noisy_text(5000), 31);
  for (size_t size = 0; size < whole.size(); ++size) {
    const MemoryReader cut({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}, "x");
    expect_error(ErrorKind::kData, "an end in the middle",
                 [&] { inflate_text(cut, DeflateForm::kGzip); });
  }
}

TEST(Inflate, DamageIsFound) {
  const std::string text = noisy_text(5000);
  const std::vector<std::byte> whole = deflated(text, 31);
  int refused = 0;
  for_each_mutation(whole, 2000, 1, [&](std::vector<std::byte> bytes) {
    try {
      EXPECT_EQ(inflate_text(MemoryReader(std::move(bytes), "x"), DeflateForm::kGzip), text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      ++refused;
    }
  });
  EXPECT_GT(refused, 1900);
}

TEST(Inflate, IntoANamelessFile) {
  const std::string text = noisy_text(200000);
  const auto file = inflate_to_file(MemoryReader(deflated(text, 31), "train.gz"),
                                    DeflateForm::kGzip, {}, "/var/tmp");
  EXPECT_EQ(file->name(), "train.gz");
  EXPECT_EQ(read_all(*file), text);
  expect_error(ErrorKind::kIo, "temporary file", [&] {
    inflate_to_file(MemoryReader(deflated(text, 31), "x"), DeflateForm::kGzip, {}, "/no/such");
  });
}

TEST(Inflate, BlocksFillExactlyOrNot) {
  const std::vector<std::byte> block = deflated("hello", 15);
  std::vector<std::byte> out(5);
  EXPECT_EQ(inflate_block(block, DeflateForm::kZlib, out), 5);
  EXPECT_EQ(text_of(out), "hello");
  out.resize(10);
  EXPECT_EQ(inflate_block(block, DeflateForm::kZlib, out), 5);
  out.resize(4);
  EXPECT_EQ(inflate_block(block, DeflateForm::kZlib, out), -1);
  EXPECT_EQ(inflate_block(bytes_of("nonsense"), DeflateForm::kZlib, out), -1);
}

TEST(Inflate, KnowsGzipAndCrc) {
  EXPECT_TRUE(looks_like_gzip(MemoryReader(deflated("", 31), "x")));
  EXPECT_FALSE(looks_like_gzip(MemoryReader(bytes_of("\x1F"), "x")));
  EXPECT_FALSE(looks_like_gzip(MemoryReader(bytes_of("plain text, long enough"), "x")));
  EXPECT_EQ(update_crc32(0, bytes_of("123456789")), 0xCBF43926u);
}

TEST(ByteReader, NeverLeavesItsPart) {
  const auto whole = file_of(bytes_of("0123456789"), "whole");
  const FileReader part(whole->file(), 2, 5, "part");
  EXPECT_EQ(read_all(part), "23456");
  std::vector<std::byte> two(2);
  expect_error(ErrorKind::kIo, "part: expected 2 bytes at 4", [&] { part.read_at(4, two); });
  expect_error(ErrorKind::kIo, "part", [&] { part.read_at(-1, two); });
  expect_error(ErrorKind::kIo, "part", [&] { part.read_at(INT64_MAX, two); });
  expect_error(ErrorKind::kIo, "cut short", [&] { FileReader(whole->file(), 8, 5, "outside"); });
}

}  // namespace
}  // namespace plimsoll::codec
