#include "formats/json_text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/base/expect_error.h"

namespace plimsoll::formats {
namespace {

using layers::Config;
using test::expect_error;

std::string reprint(const std::string& text) { return print_json(parse_json(text, "x.json"), 0); }

TEST(JsonText, KeepsKindsAndTheOrderOfKeys) {
  const std::string text =
      R"({"z": null, "a": [true, false, 1, -2, 0.5, "t"], "m": {}, "l": [], "o": {"k": 1}})";
  EXPECT_EQ(reprint(text), text);
}

TEST(JsonText, IntegersStayIntegersAndFractionsStayFractions) {
  const Config value = parse_json("[1, 1.0, 1e2, 9223372036854775807, 18446744073709551615]", "x");
  const Config::Array& items = value.as_array();
  EXPECT_TRUE(items[0].is_int());
  EXPECT_FALSE(items[1].is_int());
  EXPECT_FALSE(items[2].is_int());
  EXPECT_EQ(items[3].as_int(), INT64_MAX);
  EXPECT_FALSE(items[4].is_int());  // beyond 63 bits
  EXPECT_EQ(print_json(value, 0), "[1, 1.0, 100.0, 9223372036854775807, 18446744073709551616.0]");
}

TEST(JsonText, DoublesKeepEveryBit) {
  for (const double value : {0.1, 1e-07, 0.0010000000474974513, 1.0 / 3, 5e-324, 1.7e308, -0.0}) {
    const Config again = parse_json(print_json(Config(value), 0), "x");
    EXPECT_FALSE(again.is_int());
    EXPECT_EQ(again.as_double(), value);
    EXPECT_EQ(std::signbit(again.as_double()), std::signbit(value));
  }
}

TEST(JsonText, EscapesTextBothWays) {
  const Config value = parse_json(R"("a\"b\\c\n\u0001\u00e9\ud83d\ude00/")", "x");
  EXPECT_EQ(value.as_string(), "a\"b\\c\n\x01\xC3\xA9\xF0\x9F\x98\x80/");
  EXPECT_EQ(parse_json(print_json(value, 0), "x"), value);
}

TEST(JsonText, IndentsWhereAsked) {
  EXPECT_EQ(print_json(parse_json(R"({"a": [1, {}], "b": []})", "x"), 2),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
}

TEST(JsonText, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "[1] 2", "nul", "{'a': 1}", "[NaN",
                           "[NaNs]", "\"\xFF\"", "[1e999]"}) {
    expect_error(ErrorKind::kModel, "model.json: expected a Keras configuration in JSON",
                 [&] { parse_json(text, "model.json"); });
  }
}

// Python's json writes and reads them; who has one is named.
TEST(JsonText, RefusesNumbersThatAreNoneByTheNameOfWhatHasThem) {
  const std::string model =
      R"({"config": {"name": "m \" NaN", "layers": [{"class_name": "ReLU", "config": )"
      R"({"name": "r", "max_value": VALUE}}]}, "compile_config": {"optimizer": )"
      R"({"class_name": "SGD", "config": {"learning_rate": RATE}}}})";
  const auto with = [&](const std::string& value, const std::string& rate) {
    std::string text = model;
    text.replace(text.find("VALUE"), 5, value);
    return text.replace(text.find("RATE"), 4, rate);
  };
  EXPECT_EQ(parse_json(with("1.0", "0.1"), "m").find("config")->find("name")->as_string(),
            "m \" NaN");
  for (const std::string number : {"NaN", "Infinity", "-Infinity"}) {
    expect_error(ErrorKind::kModel,
                 "[r] max_value: expected a finite number, received " + number + ".",
                 [&] { parse_json(with(number, "0.1"), "m"); });
    expect_error(ErrorKind::kModel,
                 "[SGD] learning_rate: expected a finite number, received " + number + ".",
                 [&] { parse_json(with("1.0", number), "m"); });
  }
}

TEST(JsonText, RefusesAKeyThatOccursTwice) {
  expect_error(ErrorKind::kModel, "the key \"units\" twice",
               [] { parse_json(R"({"a": {"units": 1, "b": 2, "units": 3}})", "x"); });
}

TEST(JsonText, RefusesDepthWithoutTakingIt) {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 500'000; ++i) text += open;
    expect_error(ErrorKind::kModel, "nested more than 100 deep", [&] { parse_json(text, "x"); });
  }
}

TEST(JsonText, AcceptsDepthBelowTheBound) {
  const std::string text = std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  EXPECT_EQ(reprint(text), text);
}

TEST(JsonText, RefusesMoreValuesThanTheBound) {
  std::string text = "[0";
  for (int64_t i = 0; i < kMaxJsonValues; ++i) text += ",0";
  expect_error(ErrorKind::kModel, "more than 262144 values", [&] { parse_json(text + "]", "x"); });
}

TEST(JsonText, RefusesMoreKeysThanTheBound) {
  std::string text = "{\"k\":0";
  for (int64_t i = 0; i < kMaxJsonKeys; ++i) text += ",\"k" + std::to_string(i) + "\":0";
  expect_error(ErrorKind::kModel, "more than 4096 keys", [&] { parse_json(text + "}", "x"); });
}

TEST(JsonText, RefusesTextAboveTheBound) {
  expect_error(ErrorKind::kModel, "at most 8 MiB",
               [] { parse_json(std::string(kMaxJsonBytes + 1, ' '), "x"); });
}

}  // namespace
}  // namespace plimsoll::formats
