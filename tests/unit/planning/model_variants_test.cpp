#include "planning/model_variants.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace plimsoll::planning {
namespace {

using layers::Config;
using layers::Model;
using layers::ModelKind;

Config shape(std::vector<int64_t> sizes) {
  Config::Array array(1);  // the batch: null
  for (int64_t size : sizes) array.emplace_back(size);
  return array;
}

Model small_network() {
  Model model("net", ModelKind::kSequential);
  model.append("InputLayer", Config::Object{{"batch_shape", shape({8, 8, 3})}});
  model.append(
      "Conv2D",
      Config::Object{{"name", "filters"}, {"filters", 16}, {"kernel_size", Config::Array{3, 3}}});
  model.append("Flatten", Config::Object{{"name", "flat"}});
  model.append("Dense", Config::Object{{"name", "hidden"}, {"units", 32}});
  model.append("Dense", Config::Object{{"name", "classes"}, {"units", 10}});
  model.append("Activation", Config::Object{{"name", "top"}, {"activation", "softmax"}});
  return model;
}

layers::CompileOptions compiled(const char* optimizer) {
  layers::CompileOptions compile;
  compile.optimizer = layers::parse_optimizer(optimizer);
  compile.losses = {layers::parse_loss("sparse_categorical_crossentropy")};
  return compile;
}

const ModelVariant* find(const std::vector<ModelVariant>& variants, const std::string& part) {
  const auto found = std::ranges::find_if(variants, [&](const ModelVariant& variant) {
    return variant.change.find(part) != std::string::npos;
  });
  return found == variants.end() ? nullptr : &*found;
}

TEST(ModelVariantsTest, OptimizersWithFewerSlotsOnly) {
  const Model model = small_network();
  const auto adam = find_variants(model, compiled("adam"));
  EXPECT_NE(find(adam, "sgd(momentum=0.9)"), nullptr);
  EXPECT_NE(find(adam, "'sgd'"), nullptr);
  const auto momentum = find_variants(model, compiled("sgd(momentum=0.9)"));
  EXPECT_EQ(find(momentum, "sgd(momentum=0.9)"), nullptr);
  EXPECT_NE(find(momentum, "'sgd'"), nullptr);
  EXPECT_EQ(find(find_variants(model, compiled("sgd")), "sgd"), nullptr);
}

TEST(ModelVariantsTest, FrozenLayersKeepTheirWeights) {
  const Model model = small_network();
  const auto variants = find_variants(model, compiled("sgd"));
  const ModelVariant* half = find(variants, "first 2 of 3");
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(half->model.parameters().total(), model.parameters().total());
  EXPECT_EQ(half->model.parameters().trainable, 32 * 10 + 10);
  EXPECT_EQ(find(variants, "first 3 of 3"), nullptr);
}

TEST(ModelVariantsTest, HalfTheWidthsLeavesOutputsAlone) {
  const auto variants = find_variants(small_network(), compiled("sgd"));
  const ModelVariant* narrow = find(variants, "half the units and filters of 2 layers");
  ASSERT_NE(narrow, nullptr);
  const Model& model = narrow->model;
  EXPECT_EQ(model.layer(model.find_layer("filters")).config().at("filters").as_int(), 8);
  EXPECT_EQ(model.layer(model.find_layer("hidden")).config().at("units").as_int(), 16);
  EXPECT_EQ(model.layer(model.find_layer("classes")).config().at("units").as_int(), 10);
  EXPECT_EQ(model.outputs().front().name, "top");
}

TEST(ModelVariantsTest, SmallerImagesOnlyWhereThereAreImages) {
  const auto variants = find_variants(small_network(), compiled("sgd"));
  const ModelVariant* small = find(variants, "images");
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(small->model.inputs().front().type.shape[1].count, 4);
  Model rows("rows", ModelKind::kSequential);
  rows.append("InputLayer", Config::Object{{"batch_shape", shape({20})}});
  rows.append("Dense", Config::Object{{"units", 4}});
  const auto others = find_variants(rows, compiled("sgd"));
  EXPECT_EQ(find(others, "images"), nullptr);
  EXPECT_EQ(find(others, "half the units"), nullptr);
  EXPECT_EQ(find(others, "frozen"), nullptr);
}

// A sum of two branches allows no half of one of them: what does not go together is not proposed.
TEST(ModelVariantsTest, WhatTheShapesForbidIsLeftOut) {
  Model model("sum");
  const layers::Tensor x = model.add_input(Config::Object{{"batch_shape", shape({12})}});
  const layers::Tensor a =
      model.call(model.add_layer("Dense", Config::Object{{"units", 12}}), {x})[0];
  const layers::Tensor sum = model.call(model.add_layer("Add", Config::Object{}), {x, a})[0];
  model.set_outputs({model.call(model.add_layer("Dense", Config::Object{{"units", 3}}), {sum})[0]});
  EXPECT_EQ(find(find_variants(model, compiled("sgd")), "half the units"), nullptr);
}

}  // namespace
}  // namespace plimsoll::planning
