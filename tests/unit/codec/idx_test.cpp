#include "codec/idx.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;

// A file of this type whose axes are below 256, with so many bytes of elements.
MemoryReader idx(char type, const std::string& extents, size_t element_bytes) {
  std::string text{'\0', '\0', type, static_cast<char>(extents.size())};
  for (char extent : extents) text += std::string(3, '\0') + extent;
  return MemoryReader(bytes_of(text + std::string(element_bytes, 'x')), "images");
}

TEST(Idx, ReadsEveryType) {
  const std::pair<char, const char*> types[] = {{'\x08', "uint8"},
                                                {'\x09', "int8"},
                                                {'\x0B', "big-endian int16"},
                                                {'\x0C', "big-endian int32"},
                                                {'\x0D', "big-endian float32"},
                                                {'\x0E', "big-endian float64"}};
  for (const auto& [type, name] : types) {
    const size_t width = type == '\x0E' ? 8 : (type >= '\x0C' ? 4 : (type == '\x0B' ? 2 : 1));
    const MemoryReader file = idx(type, "\x02\x03", 6 * width);
    EXPECT_TRUE(looks_like_idx(file));
    const IdxHeader header = read_idx_header(file);
    EXPECT_EQ(to_string(header.format), name);
    EXPECT_EQ(header.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(header.data_offset, 12);
  }
}

TEST(Idx, RefusesOtherFilesAndOtherSizes) {
  const auto expect_refused = [](const MemoryReader& file, const std::string& part) {
    EXPECT_FALSE(looks_like_idx(file));
    expect_error(ErrorKind::kData, part, [&] { read_idx_header(file); });
  };
  expect_refused(idx('\x08', "\x02\x03", 5), "expected 6 bytes of elements");
  expect_refused(idx('\x0A', "\x02\x03", 6), "does not begin as one");
  expect_refused(idx('\x08', "", 60), "does not begin as one");
  expect_refused(MemoryReader(bytes_of("nothing of the kind"), "images"), "does not begin as one");
  expect_refused(MemoryReader({}, "images"), "does not begin as one");
  const std::string huge = std::string("\0\0\x0E\x03", 4) + std::string(12, '\xFF');
  expect_refused(MemoryReader(bytes_of(huge), "images"), "more than 2^63");
  // Longer than it says: no IDX file by its header, whatever it looks like.
  expect_error(ErrorKind::kData, "expected 6 bytes of elements",
               [] { read_idx_header(idx('\x08', "\x02\x03", 7)); });
}

}  // namespace
}  // namespace plimsoll::codec
