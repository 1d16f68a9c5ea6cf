#include "data/csv/csv_values.h"

#include <gtest/gtest.h>

#include <optional>

#include "data/csv/csv_survey.h"

namespace plimsoll::data {
namespace {

std::optional<double> number(std::string_view text, NumberStyle style) {
  double value = 0;
  if (!parse_number(text, style, value)) return std::nullopt;
  return value;
}

TEST(CsvValues, DecimalCommas) {
  const auto read = [](std::string_view text) { return number(text, NumberStyle::kDecimalComma); };
  EXPECT_EQ(read("2,5"), 2.5);
  EXPECT_EQ(read("-1.234,5"), -1234.5);
  EXPECT_EQ(read("1.234.567"), 1234567);
  EXPECT_EQ(read("+7"), 7);
  EXPECT_EQ(read("1,5e3"), 1500);
  for (const char* text : {"1.5", "1.23,4", ",", "1,2,3", "1.234,567.8", ".123", "1..234", "1.2345",
                           "abc", "", "-", "1,5%"}) {
    EXPECT_EQ(read(text), std::nullopt) << text;
  }
}

TEST(CsvValues, ThousandsAndPercent) {
  EXPECT_EQ(number("1,234,567.25", NumberStyle::kThousands), 1234567.25);
  EXPECT_EQ(number("999", NumberStyle::kThousands), 999);
  for (const char* text : {"1,23", "1234,567", "1,234,", ",123", "1,234,5678"}) {
    EXPECT_EQ(number(text, NumberStyle::kThousands), std::nullopt) << text;
  }
  EXPECT_EQ(number("12 %", NumberStyle::kPercent), 12);
  EXPECT_EQ(number("12", NumberStyle::kPercent), std::nullopt);
  EXPECT_EQ(number("1.234,5%", NumberStyle::kDecimalCommaPercent), 1234.5);
  EXPECT_EQ(number(std::string(100, '1'), NumberStyle::kThousands), std::nullopt);
}

TEST(CsvValues, Styles) {
  EXPECT_EQ(styles_of(',') & style_bit(NumberStyle::kDecimalComma), 0);
  const StyleSet both = styles_that_read("1,234", styles_of(';'));
  EXPECT_EQ(both, style_bit(NumberStyle::kDecimalComma) | style_bit(NumberStyle::kThousands));
  EXPECT_EQ(first_style(both), NumberStyle::kDecimalComma);
  EXPECT_EQ(styles_that_read("word", styles_of(';')), 0);
}

StyleSet styles_of_column(std::initializer_list<const char*> values) {
  StyleSurvey survey(styles_of(';'));
  int64_t line = 0;
  for (const char* value : values) survey.add(++line, value);
  return survey.styles();
}

// What may be decimal or thousands is read as neither until some value shows which.
TEST(CsvValues, PointsAmongDecimalCommas) {
  EXPECT_EQ(styles_of_column({"2,5", "1.234"}), 0);
  EXPECT_EQ(styles_of_column({"2,5", "1.234", "1.234,5"}), style_bit(NumberStyle::kDecimalComma));
  EXPECT_EQ(styles_of_column({"2,5", "1.5"}), 0);
}

TEST(CsvValues, MissingWords) {
  for (const char* word : {"-", "--", ".", "n/a", "#N/A", "\u2013", "none"}) {
    const int place = missing_among_numbers(word);
    ASSERT_GE(place, 0) << word;
    EXPECT_EQ(missing_word(place), word);
  }
  for (const char* word : {"", "-1", "x", "?", "missing value"}) {
    EXPECT_EQ(missing_among_numbers(word), -1) << word;
  }
  EXPECT_TRUE(is_missing("?"));
  EXPECT_FALSE(is_missing("-"));
}

}  // namespace
}  // namespace plimsoll::data
