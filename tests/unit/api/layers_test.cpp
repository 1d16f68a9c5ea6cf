#include "api/layers.h"

#include <gtest/gtest.h>

#include "api/spec_impl.h"
#include "unit/base/expect_error.h"

namespace plimsoll {
namespace {

using api::ModelBuilder;
using test::expect_error;

// The configuration that a layer gets after an image of 8×8×4.
layers::Config config_of(const Layer& layer) {
  const layers::Model model = ModelBuilder::sequential({Input({8, 8, 4}), layer}, "m");
  return model.layer(layers::LayerId(size_t{1})).config();
}

std::string at(const Layer& layer, const char* key) { return config_of(layer).at(key).to_json(); }

TEST(ApiLayers, DefaultsAreKerass) {
  EXPECT_EQ(at(Conv2D(3, 2), "padding"), "\"valid\"");
  EXPECT_EQ(at(Conv2D(3, 2), "kernel_size"), "[2, 2]");
  EXPECT_EQ(at(Conv2D(3, 2), "kernel_initializer"), at(Dense(3), "kernel_initializer"));
  EXPECT_EQ(at(Dense(3), "activation"), "\"linear\"");
  EXPECT_EQ(at(Dense(3), "name"), "\"dense\"");
  EXPECT_EQ(at(MaxPooling2D(), "strides"), "[2, 2]");
  EXPECT_EQ(at(MaxPooling2D(3), "strides"), "[3, 3]");
  EXPECT_EQ(at(BatchNormalization(), "momentum"), "0.99");
}

TEST(ApiLayers, ArgumentsArrive) {
  const Conv2D conv(6, {3, 2},
                    {.activation = relu,
                     .strides = 2,
                     .padding = same,
                     .groups = 2,
                     .use_bias = false,
                     .kernel_initializer = {"TruncatedNormal", {{"stddev", 0.5}}},
                     .kernel_regularizer = {.l2 = 0.25},
                     .name = "c",
                     .trainable = false});
  EXPECT_EQ(at(conv, "activation"), "\"relu\"");
  EXPECT_EQ(at(conv, "kernel_size"), "[3, 2]");
  EXPECT_EQ(at(conv, "strides"), "[2, 2]");
  EXPECT_EQ(at(conv, "padding"), "\"same\"");
  EXPECT_EQ(at(conv, "groups"), "2");
  EXPECT_EQ(at(conv, "use_bias"), "false");
  EXPECT_EQ(at(conv, "name"), "\"c\"");
  EXPECT_EQ(at(conv, "trainable"), "false");
  EXPECT_EQ(config_of(conv).at("kernel_initializer").at("config").at("stddev").as_double(), 0.5);
  EXPECT_EQ(config_of(conv).at("kernel_regularizer").at("config").at("l2").as_double(), 0.25);
  EXPECT_EQ(at(ReLU({.max_value = 6, .negative_slope = 0.1}), "max_value"), "6.0");
  EXPECT_EQ(at(Reshape({-1, 16}), "target_shape"), "[-1, 16]");
  EXPECT_EQ(at(Rescaling(0.5, 1), "offset"), "1.0");
  EXPECT_EQ(at(Dropout(0.25), "rate"), "0.25");
  EXPECT_EQ(at(ZeroPadding2D({1, 2}), "padding"), "[[1, 1], [2, 2]]");
  EXPECT_EQ(at(AveragePooling2D(2, {.strides = 1}), "strides"), "[1, 1]");
  EXPECT_EQ(at(GlobalMaxPooling2D({.keepdims = true}), "keepdims"), "true");
  EXPECT_EQ(at(LeakyReLU(0.5), "negative_slope"), "0.5");
  EXPECT_EQ(at(ELU(2), "alpha"), "2.0");
  EXPECT_EQ(at(Softmax(-1), "axis"), "-1");
  EXPECT_EQ(at(Activation(tanh), "activation"), "\"tanh\"");
  EXPECT_EQ(at(BatchNormalization({.momentum = 0.5, .scale = false}), "scale"), "false");
}

TEST(ApiLayers, TakesAnyLayerByKerassConfiguration) {
  EXPECT_EQ(at(Layer::from_keras("Dense", R"({"units": 7, "name": "k"})"), "units"), "7");
  expect_error(ErrorKind::kModel, "Did you mean \"Dense\"?",
               [] { config_of(Layer::from_keras("Dens", "{}")); });
  expect_error(ErrorKind::kModel, "Layer::from_keras(Dense)",
               [] { Layer::from_keras("Dense", "{units: 7}"); });
}

TEST(ApiLayers, WrongArgumentsNameTheLayer) {
  expect_error(ErrorKind::kModel, "[d]", [] { config_of(Dense(-3, DenseOptions{.name = "d"})); });
  expect_error(ErrorKind::kModel, "[conv2d]", [] { config_of(Conv2D(3, 9)); });
}

}  // namespace
}  // namespace plimsoll
