#include "data/sample_shape.h"

#include <gtest/gtest.h>

namespace plimsoll::data {
namespace {

using Sizes = std::vector<int64_t>;

// What is said of samples of that shape; "" where they are taken.
std::string said(const Sizes& expected, const Sizes& received) {
  try {
    check_sample_shape("[x] x.npy", expected, received);
    return "";
  } catch (const WrongShape& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
}

TEST(SampleShape, DimensionsOfOneAreNoMatter) {
  EXPECT_EQ(said({28, 28, 1}, {28, 28}), "");
  EXPECT_EQ(said({28, 28}, {28, 28, 1}), "");
  EXPECT_EQ(said({1, 28, 28}, {28, 1, 28}), "");
  EXPECT_EQ(said({1}, {}), "");
}

TEST(SampleShape, FlatSamplesFillAnyShapeOfAsMany) {
  EXPECT_EQ(said({16, 16, 3}, {768}), "");
  EXPECT_EQ(said({16, 16, 3}, {768, 1}), "");
  EXPECT_NE(said({16, 16, 3}, {767}), "");
  EXPECT_EQ(said({784}, {28, 28}), "") << "so do those of any shape a flat input";
}

TEST(SampleShape, ChannelsFirstAreRefusedThoughTheNumbersAreAsMany) {
  EXPECT_EQ(
      said({16, 16, 3}, {3, 16, 16}),
      "[x] x.npy: expected samples of shape (16, 16, 3), as the model's input has it, received "
      "(3, 16, 16). Move the channels to the end, in Python (x: the array that was saved):\n  x = "
      "np.moveaxis(x, 1, -1)");
}

TEST(SampleShape, WhatMakesImagesFitIsOneLine) {
  EXPECT_EQ(
      said({16, 16, 3}, {28, 28}),
      "[x] x.npy: expected samples of shape (16, 16, 3), as the model's input has it, received "
      "(28, 28). Add an axis for the channels, and resize the images to 16 x 16, in Python (x: the "
      "array that was saved):\n"
      "  x = keras.ops.image.resize(np.repeat(x[..., None], 3, -1), (16, 16))");
  const auto ends = [](const std::string& text, const std::string& end) {
    EXPECT_TRUE(text.ends_with(end)) << text;
  };
  ends(said({16, 16, 1}, {28, 28}), "x = keras.ops.image.resize(x[..., None], (16, 16))");
  ends(said({28, 28, 3}, {28, 28, 1}),
       "Repeat the channel, in Python (x: the array that was saved):\n  x = np.repeat(x, 3, -1)");
  ends(said({28, 28, 1}, {28, 28, 3}),
       "Make them gray, in Python (x: the array that was saved):\n  x = x.mean(-1, keepdims=True)");
  ends(said({28, 28, 3}, {28, 28, 4}),
       "Leave the fourth channel out, in Python (x: the array that was saved):\n  x = x[..., :3]");
  ends(said({28, 28, 3}, {28, 28, 2}), "Give them that shape, or the model that input.");
  ends(said({16, 16, 3}, {3, 32, 32}),
       "x = keras.ops.image.resize(np.moveaxis(x, 1, -1), (16, 16))");
}

TEST(SampleShape, OtherSamplesAreReshapedWhereTheirNumbersAreAsMany) {
  EXPECT_TRUE(said({4, 196}, {28, 28})
                  .ends_with("Reshape them, in Python (x: the array that was saved):\n"
                             "  x = x.reshape(-1, 4, 196)"));
  EXPECT_TRUE(said({6}, {5}).ends_with("Give each sample 6 numbers, or the model an input of 5."));
}

}  // namespace
}  // namespace plimsoll::data
