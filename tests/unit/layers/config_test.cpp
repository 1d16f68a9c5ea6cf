#include "layers/config/config.h"

#include <gtest/gtest.h>

#include "layers/config/names.h"
#include "unit/layers/support.h"

namespace plimsoll::layers {
namespace {

using testing::Array;
using testing::error_of;
using testing::Object;

TEST(ConfigTest, PrintsAsCompactJson) {
  const Config config =
      Object{{"name", "a \"b\"\n"}, {"n", 3},        {"x", 0.5},
             {"whole", 2.0},        {"tiny", 1e-07}, {"list", Array{1, Config(), true}},
             {"empty", Object{}}};
  EXPECT_EQ(config.to_json(),
            "{\"name\": \"a \\\"b\\\"\\u000a\", \"n\": 3, \"x\": 0.5, \"whole\": 2.0, \"tiny\": "
            "1e-07, \"list\": [1, null, true], \"empty\": {}}");
}

TEST(ConfigTest, KindsAreChecked) {
  EXPECT_EQ(Config(3.0).as_int(), 3);
  EXPECT_EQ(Config(3).as_double(), 3.0);
  EXPECT_EQ(error_of([] { Config(3.5).as_int(); }), "expected an integer, received 3.5");
  EXPECT_EQ(error_of([] { Config(1e300).as_int(); }), "expected an integer, received 1e+300");
  EXPECT_EQ(error_of([] { Config(1).as_bool(); }), "expected true or false, received 1");
  EXPECT_EQ(error_of([] { Config(true).as_int(); }), "expected an integer, received true");
  EXPECT_EQ(error_of([] { Config("x").as_array(); }), "expected a list, received \"x\"");
  EXPECT_EQ(error_of([] { Config().as_string(); }), "expected a text, received null");
}

TEST(ConfigTest, ObjectsKeepTheOrderOfTheirKeys) {
  Config config;
  config.set("b", 1);
  config.set("a", 2);
  config.set("b", 3);
  EXPECT_EQ(config.to_json(), "{\"b\": 3, \"a\": 2}");
  EXPECT_EQ(config.at("a").as_int(), 2);
  EXPECT_EQ(config.find("c"), nullptr);
  EXPECT_EQ(Config(1).find("c"), nullptr);
  EXPECT_EQ(error_of([&] { config.at("c"); }),
            "expected an object with \"c\", received {\"b\": 3, \"a\": 2}");
}

// From keras.utils.naming.to_snake_case of 3.15.
TEST(NamesTest, SnakeCaseIsKeras) {
  EXPECT_EQ(snake_case("Conv2D"), "conv2d");
  EXPECT_EQ(snake_case("MaxPooling2D"), "max_pooling2d");
  EXPECT_EQ(snake_case("GlobalAveragePooling2D"), "global_average_pooling2d");
  EXPECT_EQ(snake_case("BatchNormalization"), "batch_normalization");
  EXPECT_EQ(snake_case("ReLU"), "re_lu");
  EXPECT_EQ(snake_case("LeakyReLU"), "leaky_re_lu");
  EXPECT_EQ(snake_case("ELU"), "elu");
  EXPECT_EQ(snake_case("InputLayer"), "input_layer");
  EXPECT_EQ(snake_case("RMSprop"), "rm_sprop");
  EXPECT_EQ(snake_case("AdamW"), "adam_w");
  EXPECT_EQ(snake_case("L1L2"), "l1l2");
  EXPECT_EQ(snake_case("My-Layer!"), "my_layer");
  EXPECT_EQ(snake_case("GRUCell"), "gru_cell");
  EXPECT_EQ(snake_case("aBcDeFg"), "a_bc_de_fg");
}

}  // namespace
}  // namespace plimsoll::layers
