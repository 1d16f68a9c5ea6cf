#include "base/shape.h"

#include <gtest/gtest.h>

#include "base/id.h"
#include "unit/base/expect_error.h"

namespace plimsoll {
namespace {

using test::expect_error;

TEST(DType, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(DType::kOpaque); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  }
  EXPECT_EQ(element_bytes(DType::kFloat64), Bytes(8));
  EXPECT_EQ(element_bytes(DType::kBFloat16), Bytes(2));
  EXPECT_EQ(element_bytes(DType::kBool), Bytes(1));
  EXPECT_TRUE(is_floating(DType::kFloat16));
  EXPECT_FALSE(is_floating(DType::kInt32));
  EXPECT_TRUE(is_integer(DType::kUInt8));
  EXPECT_FALSE(is_integer(DType::kBool));
  expect_error(ErrorKind::kConfig, "Did you mean \"float32\"?", [] { parse_dtype("flaot32"); });
  expect_error(ErrorKind::kInternal, "bits", [] { element_bytes(DType::kBits); });
}

TEST(Shape, PrintsAndReadsBack) {
  for (const char* text : {"()", "(B)", "(B, 28, 28, 3)", "(4B, 64)", "(10)", "(0, 5)"}) {
    EXPECT_EQ(to_string(parse_shape(text)), text);
  }
  EXPECT_EQ(parse_shape(" ( B ,3 ) "), (Shape{Dim::batch(), Dim::constant(3)}));
  EXPECT_EQ(parse_shape("(7,)"), Shape{Dim::constant(7)});
  EXPECT_EQ(parse_shape("(1B)"), parse_shape("(B)"));
}

TEST(Shape, RefusesWhatIsNone) {
  for (const char* text : {"", "(", ")", "(B", "B, 3", "(3, B)", "(-1)", "(3 4)", "(,)", "(3,,4)",
                           "(b)", "(3)x", "(BB)", "(99999999999999999999)"}) {
    expect_error(ErrorKind::kConfig, "(B, 28, 28, 3)", [&] { parse_shape(text); });
  }
}

TEST(Shape, CountsElementsAndBytes) {
  const Shape image = parse_shape("(B, 28, 28, 3)");
  EXPECT_TRUE(image.has_batch());
  EXPECT_EQ(image.elements_per_sample(), 28 * 28 * 3);
  EXPECT_EQ(image.element_count(10), 28 * 28 * 3 * 10);
  EXPECT_EQ(image.at(5), (std::vector<int64_t>{5, 28, 28, 3}));
  EXPECT_EQ(tensor_bytes(DType::kFloat32, image, 2), Bytes(28 * 28 * 3 * 8));
  const Shape rows = parse_shape("(4B, 64)");
  EXPECT_EQ(rows.at(3), (std::vector<int64_t>{12, 64}));
  EXPECT_EQ(row_bytes(DType::kFloat32, rows), Bytes(4 * 64 * 4));
  EXPECT_EQ(Shape().element_count(7), 1);
  EXPECT_EQ(tensor_bytes(DType::kFloat64, Shape(), 7), Bytes(8));
}

TEST(Shape, RowsOfBitsStartAtBytes) {
  const Shape shape = parse_shape("(B, 3, 3)");
  EXPECT_EQ(row_bytes(DType::kBits, shape), Bytes(2));
  EXPECT_EQ(tensor_bytes(DType::kBits, shape, 5), Bytes(10));
  EXPECT_EQ(tensor_bytes(DType::kBits, parse_shape("(16)"), 5), Bytes(2));
}

TEST(Shape, OverflowIsAnErrorNotANumber) {
  const Shape huge = parse_shape("(B, 4000000000, 4000000000)");
  expect_error(ErrorKind::kConfig, "2^63", [&] { (void)huge.element_count(100); });
  expect_error(ErrorKind::kConfig, "2^63",
               [&] { tensor_bytes(DType::kFloat32, parse_shape("(B, 4000000000)"), INT64_MAX); });
}

TEST(Shape, BuildsFromExtents) {
  const std::vector<int64_t> dims = {3, 4};
  EXPECT_EQ(to_string(fixed_shape(dims)), "(3, 4)");
  EXPECT_EQ(to_string(batch_shape(dims)), "(B, 3, 4)");
}

struct ThingTag {};

TEST(Id, IsInvalidUntilGiven) {
  Id<ThingTag> id;
  EXPECT_FALSE(id.valid());
  id = Id<ThingTag>(size_t{4});
  EXPECT_EQ(id.index(), 4u);
  EXPECT_LT(Id<ThingTag>(3), id);
}

}  // namespace
}  // namespace plimsoll
