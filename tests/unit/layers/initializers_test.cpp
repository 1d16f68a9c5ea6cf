#include "layers/config/initializers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/config/regularizers.h"
#include "ops/registry.h"
#include "unit/layers/support.h"

namespace plimsoll::layers {
namespace {

using testing::Array;
using testing::error_of;
using testing::Object;

graph::Node node_of(const Config& initializer, const std::vector<int64_t>& shape) {
  graph::GraphBuilder builder(ops::registry());
  add_initializer(builder, complete_initializer(initializer), shape, "w");
  return builder.graph().nodes[0];
}

// A kernel of 3 × 3 from 4 to 8 channels: fan in 36, fan out 72.
const std::vector<int64_t> kKernel = {3, 3, 4, 8};

// Formulas of keras.initializers.VarianceScaling.
TEST(InitializerTest, ScaledDistributionsAreKeras) {
  const double cut = 0.87962566103423978;
  EXPECT_EQ(node_of("glorot_uniform", kKernel).attributes.get_double("maxval"),
            std::sqrt(3.0 / 54.0));
  EXPECT_EQ(node_of("glorot_uniform", kKernel).attributes.get_double("minval"),
            -std::sqrt(3.0 / 54.0));
  EXPECT_EQ(node_of("GlorotNormal", kKernel).attributes.get_double("stddev"),
            std::sqrt(1.0 / 54.0) / cut);
  EXPECT_EQ(node_of("he_normal", kKernel).attributes.get_double("stddev"),
            std::sqrt(2.0 / 36.0) / cut);
  EXPECT_EQ(node_of("he_normal", kKernel).op->name(), "truncated_normal");
  EXPECT_EQ(node_of("lecun_uniform", {10, 4}).attributes.get_double("maxval"),
            std::sqrt(3.0 * (1.0 / 10)));
  EXPECT_EQ(node_of("he_uniform", {5}).attributes.get_double("maxval"), std::sqrt(3.0 * (2.0 / 5)));
  const Config scaling =
      Object{{"class_name", "VarianceScaling"},
             {"config",
              Object{{"scale", 3.0}, {"mode", "fan_out"}, {"distribution", "untruncated_normal"}}}};
  EXPECT_EQ(node_of(scaling, kKernel).op->name(), "random_normal");
  EXPECT_EQ(node_of(scaling, kKernel).attributes.get_double("stddev"), std::sqrt(3.0 / 72.0));
}

// Keras's compute_fans with axes, which EinsumDense names for its kernel.
TEST(InitializerTest, FansOfAnEquation) {
  const Config plain = complete_initializer("glorot_uniform");
  const std::vector<int64_t> kernel = {64, 8, 4};
  const auto most = [&](const Config& initializer) {
    return node_of(initializer, kernel).attributes.get_double("maxval");
  };
  EXPECT_EQ(most(with_fans(plain, {0}, {1, 2})), std::sqrt(3.0 / 48));
  EXPECT_EQ(most(with_fans(plain, {0, 1}, {2})), std::sqrt(3.0 / 258));
  const Config named =
      Object{{"class_name", "GlorotUniform"},
             {"config", Object{{"input_axes", Array{-1}}, {"output_axes", Array{1}}}}};
  EXPECT_EQ(most(with_fans(named, {0}, {1, 2})), std::sqrt(3.0 / 6));
  const Config zeros = complete_initializer("zeros");
  EXPECT_EQ(with_fans(zeros, {0}, {1, 2}), zeros);
}

TEST(InitializerTest, PlainOnesKeepTheirArguments) {
  EXPECT_EQ(node_of("zeros", {2}).attributes.get_double("value"), 0.0);
  EXPECT_EQ(node_of("ones", {2}).attributes.get_double("value"), 1.0);
  const Config constant = Object{{"class_name", "Constant"}, {"config", Object{{"value", 0.25}}}};
  EXPECT_EQ(node_of(constant, {2}).attributes.get_double("value"), 0.25);
  EXPECT_EQ(node_of("uniform", {2}).attributes.get_double("maxval"), 0.05);
  EXPECT_EQ(node_of("RandomNormal", {2}).attributes.get_double("stddev"), 0.05);
  const Config orthogonal = Object{{"class_name", "OrthogonalInitializer"},
                                   {"config", Object{{"gain", 2.0}, {"seed", 3}}}};
  EXPECT_EQ(node_of(orthogonal, {4, 3}).op->name(), "orthogonal");
  EXPECT_EQ(node_of(orthogonal, {4, 3}).attributes.get_double("gain"), 2.0);
  EXPECT_EQ(node_of("identity", {3, 3}).op->name(), "identity");
}

TEST(InitializerTest, SitesFollowNamesAndSeeds) {
  const auto site = [](const Config& initializer, const std::string& name) {
    graph::GraphBuilder builder(ops::registry());
    add_initializer(builder, complete_initializer(initializer), {2, 2}, name);
    return builder.graph().nodes[0].attributes.get_int("site");
  };
  const Config seeded = Object{{"class_name", "GlorotUniform"}, {"config", Object{{"seed", 1}}}};
  EXPECT_EQ(site("glorot_uniform", "a/kernel"), site("he_normal", "a/kernel"));
  EXPECT_NE(site("glorot_uniform", "a/kernel"), site("glorot_uniform", "b/kernel"));
  EXPECT_NE(site("glorot_uniform", "a/kernel"), site(seeded, "a/kernel"));
}

TEST(InitializerTest, Refusals) {
  EXPECT_EQ(error_of([] { complete_initializer("glorot_unifrom"); }),
            "expected the name of an initializer, received \"glorot_unifrom\". Did you mean "
            "\"glorot_uniform\"?");
  EXPECT_EQ(error_of([] { complete_initializer(3); }),
            "expected the name of an initializer, received 3.");
  const auto scaling = [](Object config) {
    return error_of([&] {
      complete_initializer(
          Object{{"class_name", "VarianceScaling"}, {"config", std::move(config)}});
    });
  };
  EXPECT_NE(scaling({{"scale", 0.0}}).find("positive scale"), std::string::npos);
  EXPECT_NE(scaling({{"mode", "fan_inn"}}).find("Did you mean \"fan_in\"?"), std::string::npos);
  EXPECT_NE(scaling({{"distribution", "cauchy"}}).find("untruncated_normal"), std::string::npos);
  EXPECT_NE(scaling({{"input_axes", 0}}).find("a list of axes"), std::string::npos);
  const Config outside =
      Object{{"class_name", "HeNormal"},
             {"config", Object{{"input_axes", Array{2}}, {"output_axes", Array{1}}}}};
  EXPECT_NE(error_of([&] { node_of(outside, {3, 3}); }).find("rank 2"), std::string::npos);
  EXPECT_NE(error_of([] { node_of("identity", {2, 2, 2}); }).find("a matrix"), std::string::npos);
  EXPECT_NE(error_of([] {
              complete_initializer(
                  Object{{"class_name", "STFT"}, {"config", Object{{"window", "triang"}}}});
            }).find("STFT, window: expected null or one of blackman"),
            std::string::npos);
}

TEST(RegularizerTest, NamesAndFactors) {
  EXPECT_TRUE(complete_regularizer(Config()).is_null());
  EXPECT_EQ(complete_regularizer("l1").at("config").to_json(), "{\"l1\": 0.01}");
  EXPECT_EQ(complete_regularizer("l1_l2").at("config").to_json(), "{\"l1\": 0.0, \"l2\": 0.0}");
  EXPECT_EQ(complete_regularizer("orthogonal_regularizer").at("config").to_json(),
            "{\"factor\": 0.01, \"mode\": \"rows\"}");
  EXPECT_EQ(error_of([] { complete_regularizer("L3"); }),
            "expected L1, L2, L1L2 or OrthogonalRegularizer, received \"L3\". Did you mean "
            "\"L1\"?");
  graph::GraphBuilder builder(ops::registry());
  const ValueId w = builder.input("w", {DType::kFloat32, Shape({Dim::constant(3)})});
  EXPECT_FALSE(add_penalty(builder, complete_regularizer("l1_l2"), w, "w").valid());
  EXPECT_TRUE(add_penalty(builder, complete_regularizer("l2"), w, "w").valid());
  EXPECT_EQ(builder.graph().nodes[0].attributes.get_double("factor"), 0.01);
  EXPECT_NE(error_of([&] {
              add_penalty(builder, complete_regularizer("OrthogonalRegularizer"), w, "w");
            }).find("a matrix"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::layers
