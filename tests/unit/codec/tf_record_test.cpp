#include "codec/tf_record.h"

#include <gtest/gtest.h>

#include "codec/crc32c.h"
#include "codec/utf8.h"
#include "unit/base/expect_error.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;

uint32_t sum_of(const std::string& text) { return crc32c(bytes_of(text)); }

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, KnownSums) {
  EXPECT_EQ(sum_of("123456789"), 0xE3069283u);
  EXPECT_EQ(sum_of(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(sum_of(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(sum_of(""), 0u);
}

std::string field(int number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} +
         content;
}
std::string entry(const std::string& name, int list, const std::string& values) {
  return field(1, field(1, name) + field(2, field(list, values)));
}

std::vector<ExampleFeature> parse(const std::string& text) {
  // The features are views: the bytes have to stay.
  static std::vector<std::vector<std::byte>> kept;
  kept.push_back(bytes_of(text));
  return parse_example(kept.back(), "r");
}

TEST(TfRecord, Examples) {
  const std::string integers =
      field(1, std::string("\x05\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11));
  const std::string floats = std::string("\x0D\x00\x00\xC0\x3F", 5);  // not packed
  const auto features = parse(
      field(1, entry("n", 3, integers) + entry("f", 2, floats) + entry("b", 1, field(1, "xyz"))));
  ASSERT_EQ(features.size(), 3u);
  EXPECT_EQ(features[0].name, "n");
  EXPECT_EQ(features[0].integers, (std::vector<int64_t>{5, -1}));
  EXPECT_EQ(features[1].floats, std::vector<float>{1.5f});
  ASSERT_EQ(features[2].bytes.size(), 1u);
  EXPECT_EQ(text_of(features[2].bytes[0]), "xyz");
  EXPECT_TRUE(parse("").empty());
}

TEST(TfRecord, MalformedExamples) {
  for (const std::string& text :
       {std::string("\x0A\x05"), std::string("\x0B"), std::string(11, '\xFF'),
        field(1, field(1, field(2, std::string("\x12\x03\x0A\x01", 4)))), std::string("\x0A", 1)}) {
    expect_error(ErrorKind::kData, "r: expected a tf.train.Example", [&] { parse(text); });
  }
}

TEST(TfRecord, FramesAreVerified) {
  std::string file;
  for (const char* text : {"one", "", "three"}) {
    file += text_of(tf_record_frame(bytes_of(text)));
  }
  const auto read = [](const std::string& text) {
    TfRecordReader reader(std::make_shared<MemoryReader>(bytes_of(text), "f"));
    std::string all;
    while (reader.next()) all += text_of(reader.record()) + "|";
    return all;
  };
  EXPECT_EQ(read(file), "one||three|");
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    expect_error(ErrorKind::kData, "f: record ", [&] { read(damaged); });
  }
  for (size_t size = 1; size < file.size(); ++size) {
    if (size == 19 || size == 35) continue;  // whole records
    expect_error(ErrorKind::kData, "the end of the file", [&] { read(file.substr(0, size)); });
  }
}

TEST(Utf8, Characters) {
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xC3\xA9x"), 2u);
  EXPECT_EQ(utf8_length("\xE2\x82\xAC"), 3u);
  EXPECT_EQ(utf8_length("\xF0\x9F\x98\x80"), 4u);
  for (const char* bad : {"\x80", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF5\x80\x80\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\xC3z", "\xFF"}) {
    EXPECT_EQ(utf8_length(bad), 0u);
  }
}

}  // namespace
}  // namespace plimsoll::codec
