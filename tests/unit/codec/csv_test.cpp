#include "codec/csv.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/base/expect_error.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;

using Records = std::vector<std::vector<std::string>>;

Records read_csv(const std::string& text, char delimiter = ',') {
  auto file = std::make_shared<MemoryReader>(bytes_of(text), "t.csv");
  CsvDialect dialect = find_dialect(*file);
  dialect.delimiter = delimiter;
  CsvReader reader(std::move(file), dialect);
  Records records;
  while (reader.next()) {
    records.emplace_back(reader.fields().begin(), reader.fields().end());
  }
  return records;
}

TEST(Csv, FieldsAndLineEnds) {
  EXPECT_EQ(read_csv("a,b\r\n1, 2 ,\n\n,x"), (Records{{"a", "b"}, {"1", "2", ""}, {"", "x"}}));
  EXPECT_EQ(read_csv(""), Records{});
  EXPECT_EQ(read_csv("\n \n"), Records{});
  EXPECT_EQ(read_csv("\xEF\xBB\xBFname\n1\n"), (Records{{"name"}, {"1"}}));
  EXPECT_EQ(read_csv("a\tb c\n", '\t'), (Records{{"a", "b c"}}));
}

TEST(Csv, Quotes) {
  EXPECT_EQ(read_csv("\"a,b\",\"c\"\"d\", \" e \" ,\"\"\nx\n"),
            (Records{{"a,b", "c\"d", " e ", ""}, {"x"}}));
  EXPECT_EQ(read_csv("\"two\nlines\",1\n2,3"), (Records{{"two\nlines", "1"}, {"2", "3"}}));
  expect_error(ErrorKind::kData, "t.csv: line 2: expected a quote that is closed",
               [] { read_csv("a,b\n\"open,1\n"); });
}

TEST(Csv, CountsLines) {
  CsvReader reader(std::make_shared<MemoryReader>(bytes_of("a\n\n\"b\nc\"\ne\n"), "t"),
                   CsvDialect());
  std::vector<int64_t> lines;
  while (reader.next()) lines.push_back(reader.line());
  EXPECT_EQ(lines, (std::vector<int64_t>{1, 3, 5}));
}

TEST(Csv, RecordsAcrossBuffers) {
  std::string text;
  Records expected;
  for (int i = 0; i < 30'000; ++i) {
    const std::string number = std::to_string(i);
    text += number + ",\"x" + number + "\"\n";
    expected.push_back({number, "x" + number});
  }
  EXPECT_EQ(read_csv(text), expected);
  const std::string wide(300'000, 'w');
  EXPECT_EQ(read_csv("1," + wide + "\n2,3\n"), (Records{{"1", wide}, {"2", "3"}}));
}

TEST(Csv, LongRecordsAreRefused) {
  expect_error(ErrorKind::kData, "line 2: expected a record of at most 1 MiB",
               [] { read_csv("a\n" + std::string((1 << 20) + 1, 'w')); });
}

TEST(Csv, DelimiterOfTheFirstLine) {
  const auto guess = [](const std::string& text) {
    return find_dialect(MemoryReader(bytes_of(text), "t")).delimiter;
  };
  EXPECT_EQ(guess("a,b;c,d\n;;;;;"), ',');
  EXPECT_EQ(guess("a;b;c,d"), ';');
  EXPECT_EQ(guess("a\tb"), '\t');
  EXPECT_EQ(guess(""), ',');
  EXPECT_EQ(guess("\"1,2,3\";4"), ';');
}

TEST(Csv, BlanksBetweenNumbers) {
  const auto guess = [](const std::string& text) {
    return find_dialect(MemoryReader(bytes_of(text), "t")).delimiter;
  };
  EXPECT_EQ(guess(" 0.1  2  3\n"), ' ');
  EXPECT_EQ(guess("a b c\n1 2 3\n"), ' ');
  EXPECT_EQ(guess("18.0 8 307.0\t\"chevrolet chevelle\"\n"), ' ');
  EXPECT_EQ(guess("ID 0.5 0.25 cp\n"), ' ');
  EXPECT_EQ(guess("1\tJohn Smith\t3\n"), '\t');
  EXPECT_EQ(guess("some words of text\nand more\n"), ',');
  EXPECT_EQ(read_csv("  1   2\t\"a b\" \n3 4 c", ' '),
            (Records{{"1", "2", "a b"}, {"3", "4", "c"}}));
}

TEST(Csv, WhatStandsAboveTheRecords) {
  const auto dialect = [](const std::string& text) {
    return find_dialect(MemoryReader(bytes_of(text), "t"));
  };
  EXPECT_EQ(dialect("sep=;\r\na,b;c\n"), (CsvDialect{';', 7, 2, 0, ""}));
  EXPECT_EQ(dialect("\xEF\xBB\xBFsep=\t\na\n"), (CsvDialect{'\t', 9, 2, 0, ""}));
  EXPECT_EQ(dialect("# one\n\n#two, 2\na,b\n"), (CsvDialect{',', 15, 4, 2, "two, 2"}));
  EXPECT_EQ(dialect("a\n# no comment\n"), (CsvDialect{',', 0, 1, 0, ""}));
  EXPECT_EQ(dialect("#" + std::string(100'000, 'x') + "\na;b\n").start, 100'002);
  EXPECT_EQ(dialect("#only").comments, 1);
}

TEST(Csv, Numbers) {
  double value = 0;
  EXPECT_TRUE(parse_number("-2.5e3", value));
  EXPECT_EQ(value, -2500);
  EXPECT_TRUE(parse_number("+4", value));
  EXPECT_EQ(value, 4);
  for (const char* text : {"", "+", "1x", "0x10", "inf", "nan", "1e999", " 1", "1,5"}) {
    EXPECT_FALSE(parse_number(text, value)) << text;
  }
}

}  // namespace
}  // namespace plimsoll::codec
