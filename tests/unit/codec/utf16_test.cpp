#include "codec/utf16.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;

std::string in_utf16(std::u16string_view text, bool big) {
  std::string bytes = big ? "\xFE\xFF" : "\xFF\xFE";
  for (const char16_t unit : text) {
    const auto high = static_cast<char>(unit >> 8);
    const auto low = static_cast<char>(unit & 255);
    bytes += big ? high : low;
    bytes += big ? low : high;
  }
  return bytes;
}

std::string decoded(const std::string& bytes) {
  return read_all(*utf16_to_file(MemoryReader(bytes_of(bytes), "t"), "/var/tmp"));
}

TEST(Utf16, BothOrders) {
  for (const bool big : {false, true}) {
    EXPECT_EQ(decoded(in_utf16(u"a\u00E9\u20AC\U0001F600\n", big)),
              "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\n");
    EXPECT_TRUE(has_utf16_mark(MemoryReader(bytes_of(in_utf16(u"x", big)), "t")));
  }
  EXPECT_FALSE(has_utf16_mark(MemoryReader(bytes_of("\xEF\xBB\xBFx"), "t")));
  EXPECT_FALSE(has_utf16_mark(MemoryReader(bytes_of("x"), "t")));
}

// Characters of two units across the edges of what is read at a time.
TEST(Utf16, LongTexts) {
  std::u16string text = u"x";
  std::string expected = "x";
  for (int i = 0; i < 50'000; ++i) {
    text += u"\U0001F600";
    expected += "\xF0\x9F\x98\x80";
  }
  EXPECT_EQ(decoded(in_utf16(text, false)), expected);
}

TEST(Utf16, HalvesOfCharacters) {
  const std::string whole = in_utf16(u"ab", false);
  expect_error(ErrorKind::kData, "t: byte 4: expected UTF-16",
               [&] { decoded(whole.substr(0, 5)); });
  for (const char16_t half : {u'\xD800', u'\xDC00'}) {
    const std::u16string text = {u'a', half, u'b'};
    expect_error(ErrorKind::kData, "half of a character", [&] { decoded(in_utf16(text, true)); });
    expect_error(ErrorKind::kData, "half of a character",
                 [&] { decoded(in_utf16(text.substr(0, 2), true)); });
  }
}

}  // namespace
}  // namespace plimsoll::codec
