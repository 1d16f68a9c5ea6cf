// What a source that nobody has named may take is what the largest of usual ones do.

#include "data/any_source.h"

#include <gtest/gtest.h>

#include "data/rows/decoded_rows.h"

namespace plimsoll::data {
namespace {

const Port kClasses{.name = "y", .sample_shape = {10}, .class_numbers = true};

Bytes held(std::vector<Port> inputs, std::vector<Port> outputs = {kClasses}) {
  return largest_usual_source(inputs, outputs, 2).held;
}

TEST(AnySource, TakesForArraysWhatCompressedChunksDo) {
  // Slots of 4 MiB and three forms of a chunk of 1 MiB; labels are in smaller ones.
  const Bytes held_by_table = held({{"x", {30}}});
  EXPECT_GE(held_by_table, 11_MiB);
  EXPECT_LE(held_by_table, 13_MiB);
  EXPECT_EQ(held({{"a", {30}}, {"b", {30}}}) - held_by_table, 7_MiB + 256_KiB);
  EXPECT_GT(held({{"x", {30}}}, {{"y", {64, 64}}}), held_by_table);
  EXPECT_EQ(largest_usual_source(std::vector<Port>{{"x", {30}}}, {}, 2).opened, Bytes());
}

TEST(AnySource, TakesForImagesWhatAreDecodedAhead) {
  Decoding decoding;
  decoding.threads = 2;
  const std::vector<Port> large = {{"x", {512, 512, 3}}};
  const AnySource source = largest_usual_source(large, std::vector<Port>{kClasses}, 2);
  EXPECT_GT(source.held, decoded_bytes(512 * 512 * 3, Bytes(), decoding) + source.opened);
  EXPECT_GT(source.opened, Bytes());
  // Masks are decoded too.
  EXPECT_GT(held(large, {{"y", {512, 512, 1}}}), source.held);
  // No folder has images of 7 channels, or a table beside images.
  EXPECT_EQ(held({{"x", {64, 64, 7}}}), held({{"x", {30}}}));
  EXPECT_EQ(held({{"x", {64, 64, 3}}, {"t", {5}}}), held({{"x", {30}}, {"t", {5}}}));
}

TEST(AnySource, TakesLittleForArraysInMemory) {
  const std::vector<Port> inputs = {{"a", {64, 64, 3}}, {"b", {5}}};
  const AnySource source = largest_array_source(inputs, std::vector<Port>{kClasses});
  EXPECT_EQ(source.held, 768_KiB);
  EXPECT_EQ(source.opened, Bytes());
}

}  // namespace
}  // namespace plimsoll::data
