#include "data/csv/csv_rows.h"

#include <gtest/gtest.h>

#include "base/format.h"
#include "data/dataset.h"
#include "unit/base/expect_error.h"
#include "unit/data/arrays.h"

namespace plimsoll::data {
namespace {

using test::expect_error;
using test::TemporaryFolder;

constexpr const char* kPeople =
    "age,job,city,label\n"
    "30,cook,Rome,yes\n"
    "40,\"clerk, junior\",Oslo,no\n"
    "50,cook,Bern,yes\n";

class CsvTest : public ::testing::Test {
 protected:
  Dataset open(const std::string& text, const DatasetOptions& changes = {},
               const Dataset* like = nullptr, const std::string& name = "t.csv") {
    DatasetOptions options = changes;
    options.data = folder_.write(name, text);
    return open_dataset(options, like);
  }
  static std::vector<float> all(RowSource& rows) {
    int64_t elements = rows.row_count();
    for (const int64_t extent : rows.row_shape()) elements *= extent;
    std::vector<float> values(static_cast<size_t>(elements));
    rows.read(0, rows.row_count(), DType::kFloat32, values.data());
    return values;
  }
  static std::vector<float> features(const Dataset& dataset) { return all(*dataset.features[0]); }
  static std::vector<float> labels(const Dataset& dataset) { return all(*dataset.targets[0]); }

  TemporaryFolder folder_;
};

using Floats = std::vector<float>;

TEST_F(CsvTest, NumbersCategoriesAndLabel) {
  const Dataset dataset = open(kPeople);
  EXPECT_EQ(dataset.row_count(), 3);
  EXPECT_EQ(dataset.features[0]->row_shape(), std::vector<int64_t>{6});
  // age · clerk, cook · Bern, Oslo, Rome
  EXPECT_EQ(features(dataset), (Floats{30, 0, 1, 0, 0, 1,  //
                                       40, 1, 0, 0, 1, 0,  //
                                       50, 0, 1, 1, 0, 0}));
  EXPECT_EQ(labels(dataset), (Floats{1, 0, 1}));
  EXPECT_EQ(dataset.csv->columns[1].categories,
            (std::vector<std::string>{"clerk, junior", "cook"}));
}

TEST_F(CsvTest, CategoriesAsIndices) {
  DatasetOptions options;
  options.categories = "index";
  EXPECT_EQ(features(open(kPeople, options)), (Floats{30, 1, 2, 40, 0, 1, 50, 1, 0}));
}

TEST_F(CsvTest, ColumnsAndLabelByNameOrNumber) {
  DatasetOptions options;
  options.columns = "city,1";
  options.label_column = "job";
  const Dataset dataset = open(kPeople, options);
  EXPECT_EQ(features(dataset), (Floats{30, 0, 0, 1, 40, 0, 1, 0, 50, 1, 0, 0}));
  EXPECT_EQ(labels(dataset), (Floats{1, 0, 1}));
  options.columns = "aeg";
  expect_error(ErrorKind::kConfig, "Did you mean \"age\"?", [&] { open(kPeople, options); });
}

TEST_F(CsvTest, WithoutHeader) {
  const Dataset dataset = open("5.1;3.5;Iris-a\n4.9;3.0;Iris-b\n");
  EXPECT_EQ(features(dataset), (Floats{5.1f, 3.5f, 4.9f, 3.0f}));
  EXPECT_EQ(labels(dataset), (Floats{0, 1}));
  DatasetOptions options;
  options.header = "yes";
  EXPECT_EQ(open("1,2\n3,4\n", options).row_count(), 1);
}

// Records of words alone: a number that differs from row to row, then one of two opinions.
std::string opinions(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("no. {}!,{}\n", i, i % 2 == 0 ? "good" : "bad");
  return text;
}

TEST_F(CsvTest, HeaderAboveWordsAlone) {
  // What labels are called.
  EXPECT_EQ(open("text,Label\n" + opinions(2)).row_count(), 2);
  // A column of few values, of which the first is none.
  const Dataset dataset = open("review,sentiment\n" + opinions(20));
  EXPECT_EQ(dataset.row_count(), 20);
  ASSERT_EQ(dataset.notes.size(), 1U);
  EXPECT_NE(dataset.notes[0].find("the first line names the columns"), std::string::npos);
  // Columns that are asked for.
  DatasetOptions options;
  options.label_column = "sentiment";
  EXPECT_EQ(open("review,sentiment\n" + opinions(2), options).row_count(), 2);
  options = {};
  options.columns = "other,review";
  EXPECT_EQ(open("review,other,last\nk,l,m\no,p,q\n", options).row_count(), 2);
}

TEST_F(CsvTest, FirstRecordOfWordsAlone) {
  EXPECT_EQ(open(opinions(20)).row_count(), 20);
  // Two records say nothing.
  EXPECT_EQ(open("review,sentiment\n" + opinions(2)).row_count(), 3);
  // Names differ from each other.
  EXPECT_EQ(open("x,x\n" + opinions(20)).row_count(), 21);
  // A word that comes again is none, whatever it says.
  EXPECT_EQ(open("label,good\n" + opinions(20)).row_count(), 21);
  DatasetOptions options;
  options.header = "no";
  EXPECT_EQ(open("review,sentiment\n" + opinions(20), options).row_count(), 21);
}

TEST_F(CsvTest, OneHotLabelsWhereTheModelWantsThem) {
  DatasetOptions options;
  options.target_elements = 3;
  options.label_column = "city";
  EXPECT_EQ(labels(open(kPeople, options)), (Floats{0, 0, 1, 0, 1, 0, 1, 0, 0}));
}

TEST_F(CsvTest, Standardized) {
  DatasetOptions options;
  options.standardize = true;
  const Floats values = features(open("x,y\n1,0\n3,1\n1,0\n3,1\n", options));
  EXPECT_EQ(values, (Floats{-1, 1, -1, 1}));
}

TEST_F(CsvTest, MissingValues) {
  const char* text = "a,b,y\n1,u,0\n?,v,1\n5,,0\n";
  expect_error(ErrorKind::kData, "t.csv: line 3, column \"a\": expected a value, received \"?\"",
               [&] { open(text); });
  DatasetOptions options;
  options.fill = "mean";
  EXPECT_EQ(features(open(text, options)), (Floats{1, 1, 0, 3, 0, 1, 5, 0, 0}));
  options.fill = "-1";
  EXPECT_EQ(features(open(text, options)), (Floats{1, 1, 0, -1, 0, 1, 5, 0, 0}));
  const Dataset unlabelled = open("a,y\n1,0\n2,NA\n3,1\n4,\n", options);
  EXPECT_EQ(features(unlabelled), (Floats{1, 3}));
  EXPECT_EQ(labels(unlabelled), (Floats{0, 1}));
  ASSERT_EQ(unlabelled.notes.size(), 1u);
  EXPECT_NE(unlabelled.notes[0].find("2 rows without a label, the first in line 3"),
            std::string::npos);
  expect_error(ErrorKind::kData, "expected labels, received none",
               [&] { open("a,y\n1,\n2,NA\n", options); });
  options.fill = "median";
  expect_error(ErrorKind::kConfig, "expected mean or a number, received \"median\"",
               [&] { open(text, options); });
}

TEST_F(CsvTest, ValidationIsReadLikeTraining) {
  const Dataset train = open(kPeople);
  const Dataset other = open("age,job,city,label\n60,cook,Oslo,no\n", {}, &train, "v.csv");
  EXPECT_EQ(features(other), (Floats{60, 0, 1, 0, 1, 0}));
  EXPECT_EQ(labels(other), (Floats{0}));
  const Dataset bare = open("60,cook,Oslo\n", {}, &train, "w.csv");
  EXPECT_EQ(features(bare), (Floats{60, 0, 1, 0, 1, 0}));
  EXPECT_TRUE(bare.targets.empty());
  expect_error(ErrorKind::kData,
               "line 1, column \"city\": expected one of the 3 categories of " +
                   (folder_ / "t.csv") + ", received \"Osla\". Did you mean \"Oslo\"?",
               [&] { open("60,cook,Osla,no\n", {}, &train, "x.csv"); });
  DatasetOptions options;
  options.fill = "mean";
  const Dataset filled = open(kPeople, options);
  EXPECT_EQ(features(open("60,cook,Osla,no\n", {}, &filled, "x.csv")), (Floats{60, 0, 1, 0, 0, 0}));
}

TEST_F(CsvTest, WhatIsWrongIsSaidWithItsLine) {
  expect_error(ErrorKind::kData,
               "t.csv: line 3: expected 2 fields as in the first line, received 3",
               [&] { open("1,2\n3,4\n5,6,7\n"); });
  std::string text = "n,y\n";
  for (int i = 0; i < 1500; ++i) text += std::to_string(i) + ",0\n";
  expect_error(
      ErrorKind::kData,
      "line 1502, column \"n\": expected a number as in the lines before, received \"oops\"",
      [&] { open(text + "oops,1\n"); });
  std::string many = "n,y\n";
  for (int i = 0; i < 10'001; ++i) many += "w" + std::to_string(i) + ",0\n";
  expect_error(ErrorKind::kData, "line 10002, column \"n\": expected at most 10000 categories",
               [&] { open(many); });
  expect_error(ErrorKind::kData, "expected records, received an empty file", [&] { open(""); });
  DatasetOptions options;
  options.header = "yes";
  expect_error(ErrorKind::kData, "a header and none", [&] { open("a,b\n", options); });
}

TEST_F(CsvTest, InfinityAmongNumbersIsRefusedWhereverItStands) {
  const auto refused = [&](const std::string& text, const std::string& what) {
    expect_error(ErrorKind::kData, what + "\"", [&] { open(text); });
  };
  refused("a,y\n-Inf,0\n1,1\n2,0\n",
          "line 2, column \"a\": expected a finite number, received \"-Inf");
  refused("a,y\n1,0\n-Inf,1\n2,0\n",
          "line 3, column \"a\": expected a finite number, received \"-Inf");
  refused("a,y\n1,0\n2,1\ninfinity,0\n+inf,0\n",
          "line 4, column \"a\": expected a finite number, received \"infinity");
  refused("-inf,x\n1,y\n",
          "line 1, column \"column 1\": expected a finite number, received \"-inf");
  std::string many = "a,y\n+Inf,0\n";
  for (int i = 0; i < 1500; ++i) many += std::to_string(i) + ",0\n";
  refused(many, "line 2, column \"a\": expected a finite number, received \"+Inf");
  // Among words it is one, and so it is alone.
  for (const char* text : {"a,y\ninf,0\nlow,1\n", "a,y\nlow,1\ninf,0\n"}) {
    EXPECT_EQ(open(text).csv->columns[0].categories, (std::vector<std::string>{"inf", "low"}));
  }
  DatasetOptions options;
  options.header = "yes";
  EXPECT_EQ(open("a,y\ninf,0\n-inf,1\n", options).csv->columns[0].categories,
            (std::vector<std::string>{"-inf", "inf"}));
  const Dataset mixed[] = {open("a,y\n1,0\ninf,0\nlow,1\n"), open("a,y\ninf,0\nlow,1\n1,0\n")};
  for (const Dataset& dataset : mixed) {
    EXPECT_EQ(dataset.csv->columns[0].categories, (std::vector<std::string>{"1", "inf", "low"}));
  }
}

TEST_F(CsvTest, AnyPartOfALargeTable) {
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    text += std::to_string(i) + ",c" + std::to_string(i % 7) + ",1\n";
  const Dataset dataset = open(text);
  RowSource& rows = *dataset.features[0];
  ASSERT_EQ(rows.row_shape(), std::vector<int64_t>{8});
  EXPECT_LT(dataset.resident_bytes(), Bytes(700'000));
  std::vector<float> values(8 * 5000);
  rows.read(12'345, 5000, DType::kFloat32, values.data());
  for (int64_t i = 0; i < 5000; ++i) {
    const float* row = values.data() + 8 * i;
    EXPECT_EQ(row[0], static_cast<float>(12'345 + i));
    for (int64_t c = 0; c < 7; ++c) EXPECT_EQ(row[1 + c], (12'345 + i) % 7 == c ? 1 : 0);
  }
  expect_error(ErrorKind::kData, "row 1: expected a whole number", [&] {
    int32_t number[2];
    open("0.0,1\n2.5,1\n").features[0]->read(0, 2, DType::kInt32, number);
  });
}

}  // namespace
}  // namespace plimsoll::data
