#include "graph/attributes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plimsoll::graph {
namespace {

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(AttributesTest, ReadsWhatWasSet) {
  Attributes attributes{{"units", 3}, {"rate", 0.5}, {"kind", "relu"}, {"flag", true}};
  attributes.set("strides", std::vector<int64_t>{1, 2});
  EXPECT_EQ(attributes.get_int("units"), 3);
  EXPECT_EQ(attributes.get_double("rate"), 0.5);
  EXPECT_EQ(attributes.get_string("kind"), "relu");
  EXPECT_TRUE(attributes.get_bool("flag"));
  EXPECT_EQ(attributes.get_ints("strides"), (std::vector<int64_t>{1, 2}));
  attributes.erase("units");
  EXPECT_FALSE(attributes.has("units"));
}

TEST(AttributesTest, AnIntegerPassesForANumberButNotTheOtherWay) {
  const Attributes attributes{{"n", 2}, {"x", 2.5}};
  EXPECT_EQ(attributes.get_double("n"), 2.0);
  EXPECT_EQ(message_of([&] { attributes.get_int("x"); }),
            "attribute \"x\": expected an integer, received a number.");
}

TEST(AttributesTest, MissingKeysTakeTheDefaultOrThrow) {
  const Attributes attributes;
  EXPECT_EQ(attributes.get_int("n", 7), 7);
  EXPECT_EQ(attributes.get_string("s", "x"), "x");
  EXPECT_EQ(message_of([&] { attributes.get_ints("n"); }),
            "attribute \"n\": expected a list of integers, received none.");
}

TEST(AttributesTest, ADefaultDoesNotHideAnotherType) {
  const Attributes attributes{{"n", "three"}};
  EXPECT_EQ(message_of([&] { attributes.get_int("n", 7); }),
            "attribute \"n\": expected an integer, received a string.");
}

}  // namespace
}  // namespace plimsoll::graph
