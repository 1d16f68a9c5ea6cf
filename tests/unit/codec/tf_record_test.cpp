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

// A reader at the only record of a file.
TfRecordReader reader_of(const std::string& record) {
  TfRecordReader reader(file_of(tf_record_frame(bytes_of(record)), "f"));
  EXPECT_TRUE(reader.next());
  return reader;
}

std::vector<ExampleFeature> parse(const std::string& record) {
  return reader_of(record).features();
}

std::string values_of(TfRecordReader& reader, const ExampleFeature& feature) {
  std::string all;
  reader.read_values(feature, [&](std::span<const std::byte> piece) { all += text_of(piece); });
  return all;
}

template <typename T>
std::string as_text(const std::vector<T>& values) {
  return text_of(std::as_bytes(std::span(values)));
}

TEST(TfRecord, Examples) {
  const std::string integers =
      field(1, std::string("\x05\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11));
  const std::string floats = std::string("\x0D\x00\x00\xC0\x3F", 5);  // not packed
  TfRecordReader reader = reader_of(
      field(1, entry("n", 3, integers) + entry("f", 2, floats) + entry("b", 1, field(1, "xyz"))));
  const std::vector<ExampleFeature> features = reader.features();
  ASSERT_EQ(features.size(), 3u);
  EXPECT_EQ(features[0].name, "n");
  EXPECT_EQ(features[0].count, 2);
  EXPECT_EQ(values_of(reader, features[0]), as_text<int64_t>({5, -1}));
  EXPECT_EQ(values_of(reader, features[1]), as_text<float>({1.5f}));
  EXPECT_EQ(features[2].count, 1);
  EXPECT_EQ(features[2].bytes, 3);
  EXPECT_EQ(values_of(reader, features[2]), "xyz");
  EXPECT_EQ(read_all(*reader.open_string(features[2])), "xyz");
  EXPECT_TRUE(parse("").empty());
}

TEST(TfRecord, MalformedExamples) {
  for (const std::string& text :
       {std::string("\x0A\x05"), std::string("\x0B"), std::string(11, '\xFF'),
        field(1, field(1, field(2, std::string("\x12\x03\x0A\x01", 4)))), std::string("\x0A", 1)}) {
    expect_error(ErrorKind::kData, "f: record 0: expected a tf.train.Example",
                 [&] { parse(text); });
  }
}

TEST(TfRecord, StringsOneByOne) {
  const std::string three = field(1, "ab") + field(1, "") + field(1, "c");
  TfRecordReader reader = reader_of(field(1, entry("s", 1, three)));
  std::vector<std::string> strings;
  std::vector<int64_t> lengths;
  strings.reserve(3);
  reader.read_strings(reader.features().at(0), [&](int64_t bytes) -> std::string& {
    lengths.push_back(bytes);
    return strings.emplace_back("before");
  });
  EXPECT_EQ(strings, (std::vector<std::string>{"ab", "", "c"}));
  EXPECT_EQ(lengths, (std::vector<int64_t>{2, 0, 1}));
}

// Numbers across the edges of what is read at a time.
TEST(TfRecord, ALargeRecord) {
  const auto length = [](size_t size) {
    std::string text;
    for (; size >= 128; size >>= 7) text += static_cast<char>(size | 128);
    return text + static_cast<char>(size);
  };
  const auto large = [&](int number, const std::string& content) {
    return std::string{static_cast<char>(number << 3 | 2)} + length(content.size()) + content;
  };
  std::vector<int64_t> integers(100'000);
  std::string packed;
  for (size_t i = 0; i < integers.size(); ++i) {
    integers[i] = static_cast<int64_t>(i * i);
    packed += length(i * i);
  }
  std::vector<float> floats(70'000);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i);
  const auto list = [&](const std::string& name, int kind, const std::string& values) {
    return large(1, field(1, name) + large(2, large(kind, large(1, values))));
  };
  TfRecordReader reader = reader_of(
      large(1, list("odd", 1, "x") + list("n", 3, packed) + list("f", 2, as_text(floats))));
  const std::vector<ExampleFeature> features = reader.features();
  ASSERT_EQ(features.size(), 3u);
  EXPECT_EQ(features[1].count, 100'000);
  EXPECT_EQ(values_of(reader, features[1]), as_text(integers));
  EXPECT_EQ(values_of(reader, features[2]), as_text(floats));
}

TEST(TfRecord, IsKnownByItsFirstLength) {
  EXPECT_TRUE(looks_like_tf_record(*file_of(tf_record_frame(bytes_of("x")), "f")));
  EXPECT_FALSE(looks_like_tf_record(*file_of(bytes_of("\x93NUMPY\x01 and more of it"), "f")));
  EXPECT_FALSE(looks_like_tf_record(*file_of(bytes_of("short"), "f")));
}

TEST(TfRecord, FramesAreVerified) {
  std::string file;
  for (const char* text : {"one", "", "three"}) {
    file += text_of(tf_record_frame(bytes_of(text)));
  }
  const auto read = [](const std::string& text) {
    TfRecordReader reader(file_of(bytes_of(text), "f"));
    std::string all;
    while (reader.next()) {
      all += text.substr(static_cast<size_t>(reader.begin()),
                         static_cast<size_t>(reader.end() - reader.begin())) +
             "|";
    }
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
