#include "codec/lzf.h"

#include <gtest/gtest.h>

#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

// As the stream and as the block; both must agree. "none" for what is no LZF.
std::string decompressed(const std::string& compressed, size_t most = 1 << 20) {
  std::vector<std::byte> block(most);
  const int64_t count = lzf_decompress_block(bytes_of(compressed), block);
  std::string streamed;
  const int64_t total =
      lzf_decompress_stream(MemoryReader(bytes_of(compressed), "t"), static_cast<int64_t>(most),
                            [&](std::span<const std::byte> piece) { streamed += text_of(piece); });
  EXPECT_EQ(count, total);
  if (count < 0) return "none";
  EXPECT_EQ(text_of(std::span(block).first(static_cast<size_t>(count))), streamed);
  return streamed;
}

std::string literal(const std::string& text) {
  return std::string(1, static_cast<char>(text.size() - 1)) + text;
}
// `length` bytes again, from `distance` bytes before the end.
std::string again(size_t length, size_t distance) {
  const size_t high = (distance - 1) >> 8;
  const auto low = static_cast<char>((distance - 1) & 255);
  if (length < 9) return {static_cast<char>((length - 2) << 5 | high), low};
  return {static_cast<char>(7 << 5 | high), static_cast<char>(length - 9), low};
}

TEST(Lzf, RunsAndRepeats) {
  EXPECT_EQ(decompressed(""), "");
  EXPECT_EQ(decompressed(literal("abc") + again(4, 3) + literal("!")), "abcabca!");
  EXPECT_EQ(decompressed(literal("x") + again(200, 1)), std::string(201, 'x'));
}

TEST(Lzf, RepeatsOfFarAgoInALongStream) {
  std::string compressed;
  std::string expected;
  const std::string noise = noisy_text(8192);
  for (size_t at = 0; at < noise.size(); at += 32) compressed += literal(noise.substr(at, 32));
  expected = noise;
  for (int i = 0; i < 3000; ++i) {
    const size_t length = 3 + static_cast<size_t>(i) % 260;
    compressed += again(length, 8192);
    expected += expected.substr(expected.size() - 8192, length);
  }
  EXPECT_EQ(decompressed(compressed), expected);
}

TEST(Lzf, WhatIsNone) {
  EXPECT_EQ(decompressed(again(3, 1)), "none");  // of nothing
  EXPECT_EQ(decompressed(literal("ab") + again(3, 3)), "none");
  EXPECT_EQ(decompressed("\x05"
                         "ab"),
            "none");
  EXPECT_EQ(decompressed(literal("a") + "\x20"), "none");
  EXPECT_EQ(decompressed(literal("a") + again(50, 1), 20), "none");
  for_each_mutation(bytes_of(literal("abcdef") + again(20, 6) + literal("xyz") + again(9, 4)), 500,
                    3, [](const std::vector<std::byte>& bytes) { decompressed(text_of(bytes)); });
}

}  // namespace
}  // namespace plimsoll::codec
