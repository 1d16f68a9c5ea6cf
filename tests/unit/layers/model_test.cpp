#include "layers/model/model.h"

#include <gtest/gtest.h>

#include "unit/layers/support.h"

namespace plimsoll::layers {
namespace {

using testing::add_input;
using testing::Array;
using testing::error_of;
using testing::Object;

// Shape of one layer's output on an input of these sizes, and the number of its parameters.
std::string shape_of(std::string_view class_name, const Object& config,
                     const std::vector<int64_t>& dims) {
  Model model;
  const Tensor x = add_input(model, dims);
  const LayerId layer = model.add_layer(class_name, config);
  const Tensor y = model.call(layer, {x})[0];
  return to_string(model.type(y).shape) + " " + std::to_string(model.parameters().total());
}

TEST(ShapeTest, Conv2D) {
  const auto conv = [](Object more) {
    Object config = {{"filters", 8}, {"kernel_size", 3}};
    for (auto& entry : more) config.push_back(std::move(entry));
    return shape_of("Conv2D", config, {10, 11, 4});
  };
  EXPECT_EQ(conv({}), "(B, 8, 9, 8) 296");
  EXPECT_EQ(conv({{"padding", "same"}}), "(B, 10, 11, 8) 296");
  EXPECT_EQ(conv({{"padding", "same"}, {"strides", 2}}), "(B, 5, 6, 8) 296");
  EXPECT_EQ(conv({{"strides", Array{1, 2}}}), "(B, 8, 5, 8) 296");
  EXPECT_EQ(conv({{"dilation_rate", 2}}), "(B, 6, 7, 8) 296");
  EXPECT_EQ(conv({{"groups", 2}}), "(B, 8, 9, 8) 152");
  EXPECT_EQ(conv({{"use_bias", false}}), "(B, 8, 9, 8) 288");
}

TEST(ShapeTest, DenseWorksOnTheLastDimension) {
  EXPECT_EQ(shape_of("Dense", {{"units", 3}}, {5}), "(B, 3) 18");
  EXPECT_EQ(shape_of("Dense", {{"units", 3}}, {7, 5}), "(B, 7, 3) 18");
}

TEST(ShapeTest, Pooling) {
  EXPECT_EQ(shape_of("MaxPooling2D", {}, {7, 8, 3}), "(B, 3, 4, 3) 0");
  EXPECT_EQ(shape_of("MaxPooling2D", {{"padding", "same"}}, {7, 8, 3}), "(B, 4, 4, 3) 0");
  EXPECT_EQ(shape_of("AveragePooling2D", {{"pool_size", 3}, {"strides", 1}}, {7, 8, 3}),
            "(B, 5, 6, 3) 0");
  EXPECT_EQ(shape_of("MaxPooling2D", {{"pool_size", 20}}, {40, 40, 1}), "(B, 2, 2, 1) 0");
  EXPECT_EQ(shape_of("GlobalAveragePooling2D", {}, {7, 8, 3}), "(B, 3) 0");
  EXPECT_EQ(shape_of("GlobalMaxPooling2D", {{"keepdims", true}}, {7, 8, 3}), "(B, 1, 1, 3) 0");
}

TEST(ShapeTest, AdaptivePooling) {
  EXPECT_EQ(shape_of("AdaptiveAveragePooling1D", {{"output_size", 3}}, {10, 2}), "(B, 3, 2) 0");
  EXPECT_EQ(shape_of("AdaptiveMaxPooling2D", {{"output_size", Array{4, 6}}}, {8, 4, 3}),
            "(B, 4, 6, 3) 0");
  EXPECT_EQ(shape_of("AdaptiveAveragePooling3D", {{"output_size", 2}}, {5, 2, 1, 3}),
            "(B, 2, 2, 2, 3) 0");
  EXPECT_NE(error_of([] {
              shape_of("AdaptiveMaxPooling1D", {{"output_size", 257}}, {1000, 1});
            }).find("at most 256 different windows, received 257 of 1000 rows"),
            std::string::npos);
}

TEST(ShapeTest, Volumes) {
  const std::vector<int64_t> volume = {5, 6, 7, 4};
  EXPECT_EQ(shape_of("Conv3D",
                     {{"filters", 8}, {"kernel_size", Array{1, 2, 3}}, {"strides", Array{1, 2, 1}}},
                     volume),
            "(B, 5, 3, 5, 8) 200");
  EXPECT_EQ(shape_of("Conv3D", {{"filters", 8}, {"kernel_size", 3}, {"padding", "same"}}, volume),
            "(B, 5, 6, 7, 8) 872");
  EXPECT_EQ(
      shape_of("Conv3DTranspose", {{"filters", 3}, {"kernel_size", 2}, {"strides", 2}}, volume),
      "(B, 10, 12, 14, 3) 99");
  EXPECT_EQ(shape_of("MaxPooling3D", {}, volume), "(B, 2, 3, 3, 4) 0");
  EXPECT_EQ(shape_of("AveragePooling3D", {{"pool_size", 2}, {"padding", "same"}}, volume),
            "(B, 3, 3, 4, 4) 0");
  EXPECT_EQ(shape_of("GlobalMaxPooling3D", {{"keepdims", true}}, volume), "(B, 1, 1, 1, 4) 0");
  EXPECT_EQ(shape_of("GlobalAveragePooling3D", {}, volume), "(B, 4) 0");
  EXPECT_EQ(shape_of("UpSampling3D", {{"size", Array{1, 2, 3}}}, volume), "(B, 5, 12, 21, 4) 0");
  EXPECT_EQ(shape_of("ZeroPadding3D", {{"padding", Array{1, 0, Array{2, 3}}}}, volume),
            "(B, 7, 6, 12, 4) 0");
  EXPECT_EQ(shape_of("Cropping3D", {}, volume), "(B, 3, 4, 5, 4) 0");
}

TEST(ShapeTest, Others) {
  EXPECT_EQ(shape_of("Flatten", {}, {7, 8, 3}), "(B, 168) 0");
  EXPECT_EQ(shape_of("Flatten", {}, {5}), "(B, 5) 0");
  EXPECT_EQ(shape_of("Reshape", {{"target_shape", Array{-1, 6}}}, {7, 8, 3}), "(B, 28, 6) 0");
  EXPECT_EQ(shape_of("Reshape", {{"target_shape", Array{168}}}, {7, 8, 3}), "(B, 168) 0");
  EXPECT_EQ(shape_of("ZeroPadding2D", {{"padding", Array{Array{1, 2}, Array{3, 4}}}}, {7, 8, 3}),
            "(B, 10, 15, 3) 0");
  EXPECT_EQ(shape_of("BatchNormalization", {}, {7, 8, 3}), "(B, 7, 8, 3) 12");
  EXPECT_EQ(shape_of("BatchNormalization", {{"scale", false}}, {5}), "(B, 5) 15");
  EXPECT_EQ(shape_of("Dropout", {{"rate", 0.5}}, {5}), "(B, 5) 0");
  EXPECT_EQ(shape_of("Rescaling", {{"scale", 2}}, {5}), "(B, 5) 0");
  for (std::string_view name : {"ReLU", "LeakyReLU", "ELU", "Softmax"}) {
    EXPECT_EQ(shape_of(name, {}, {4, 5}), "(B, 4, 5) 0") << name;
  }
}

TEST(ShapeTest, EveryActivationKeepsTheShape) {
  for (std::string_view name :
       {"relu",        "relu6",          "leaky_relu",   "sigmoid",   "tanh",        "elu",
        "celu",        "selu",           "softplus",     "softsign",  "exponential", "gelu",
        "silu",        "swish",          "hard_sigmoid", "hard_silu", "hard_swish",  "hard_tanh",
        "hard_shrink", "soft_shrink",    "tanh_shrink",  "mish",      "log_sigmoid", "squareplus",
        "sparse_plus", "sparse_sigmoid", "linear",       "softmax",   "log_softmax"}) {
    EXPECT_EQ(shape_of("Activation", {{"activation", std::string(name)}}, {6}), "(B, 6) 0") << name;
  }
  EXPECT_EQ(shape_of("Activation", {{"activation", "glu"}}, {6}), "(B, 3) 0");
}

TEST(ModelTest, ErrorsNameTheLayer) {
  EXPECT_EQ(error_of([] {
              shape_of("Conv2D", {{"filters", 1}, {"kernel_size", 3}}, {784});
            }),
            "[conv2d] expected rank 4, received (B, 784). Add a Reshape before it, or check the "
            "model's input shape.");
  EXPECT_EQ(error_of([] {
              shape_of("Conv2D", {{"filters", 1}, {"kernel_size", 9}}, {8, 8, 1});
            }).substr(0, 18),
            "[conv2d] conv2d/co");
  EXPECT_EQ(error_of([] {
              shape_of("Conv2D", {{"filters", 3}, {"kernel_size", 1}, {"groups", 3}}, {8, 8, 4});
            }),
            "[conv2d] expected channels that are a multiple of groups=3, received 4. Change "
            "groups.");
  EXPECT_EQ(error_of([] {
              shape_of("Reshape", {{"target_shape", Array{-1, 5}}}, {4, 4});
            }),
            "[reshape] expected a multiple of 5 elements per sample, received (B, 4, 4). Check "
            "target_shape.");
  EXPECT_NE(error_of([] { shape_of("Add", {}, {4}); }).find("[add] expected two or more inputs"),
            std::string::npos);
}

TEST(ModelTest, MergesCheckTheirInputs) {
  Model model;
  const Tensor a = add_input(model, {4, 4, 2});
  const Tensor b = add_input(model, {4, 4, 3});
  const LayerId add = model.add_layer("Add", Object{});
  EXPECT_EQ(error_of([&] {
              model.call(add, {a, b});
            }),
            "[add] expected shapes that repeat into each other, received (B, 4, 4, 2) and "
            "(B, 4, 4, 3). Reshape one of them first.");
  const Tensor channels = model.call(model.add_layer("GlobalMaxPooling2D", Object{}), {a})[0];
  EXPECT_EQ(to_string(model.type(model.call(add, {channels, a})[0]).shape), "(B, 4, 4, 2)");
  const LayerId concat = model.add_layer("Concatenate", Object{});
  EXPECT_EQ(to_string(model.type(model.call(concat, {a, b})[0]).shape), "(B, 4, 4, 5)");
  const LayerId rows = model.add_layer("Concatenate", Object{{"axis", 1}});
  EXPECT_NE(error_of([&] {
              model.call(rows, {a, b});
            }).find("along axis 1 only"),
            std::string::npos);
  const LayerId batch = model.add_layer("Concatenate", Object{{"axis", 0}});
  EXPECT_NE(error_of([&] {
              model.call(batch, {a, b});
            }).find("after the batch"),
            std::string::npos);
}

TEST(ModelTest, NamesAreKeras) {
  Model model = testing::small_cnn();
  std::string names;
  for (const LayerRow& row : summarize(model)) names += row.name + " ";
  EXPECT_EQ(names, "input_layer conv2d max_pooling2d flatten dropout dense ");
  EXPECT_EQ(model.layer(model.append("Dense", Object{{"units", 2}})).name(), "dense_1");
  EXPECT_EQ(error_of([&] {
              model.add_layer("Dense", Object{{"units", 2}, {"name", "dense"}});
            }),
            "[dense] expected a name of its own, received one that another layer has. Rename one "
            "of them.");
}

TEST(ModelTest, CountsParametersAndLists) {
  Model model = testing::small_cnn();
  EXPECT_EQ(model.parameters().total(), 20 + 27);
  EXPECT_EQ(model.parameters().trainable, 47);
  model.set_trainable("conv2d", false);
  EXPECT_EQ(model.parameters().trainable, 27);
  EXPECT_EQ(model.parameters().frozen, 20);
  EXPECT_EQ(error_of([&] { model.set_trainable("conv2", false); }),
            "[small] expected the name of a layer, received \"conv2\". Did you mean \"conv2d\"?");
  const std::vector<LayerRow> rows = summarize(model);
  EXPECT_EQ(rows[1].output_shape, "(B, 4, 4, 2)");
  EXPECT_EQ(rows[1].output_bytes_per_sample.count(), 4 * 4 * 2 * 4);
  EXPECT_EQ(rows[1].inputs, std::vector<std::string>{"input_layer"});
  EXPECT_EQ(rows[1].parameters.frozen, 20);
  std::string weights;
  for (const ModelWeight& weight : model.all_weights()) weights += weight.name + " ";
  EXPECT_EQ(weights, "conv2d/kernel conv2d/bias dense/kernel dense/bias ");
}

TEST(ModelTest, ASharedLayerOwnsOneSetOfWeights) {
  Model model;
  const Tensor a = add_input(model, {4});
  const Tensor b = add_input(model, {4});
  const Tensor c = add_input(model, {5});
  const LayerId dense = model.add_layer("Dense", Object{{"units", 3}});
  model.call(dense, {a});
  model.call(dense, {b});
  EXPECT_EQ(model.parameters().total(), 15);
  EXPECT_EQ(error_of([&] { model.call(dense, {c}); }),
            "[dense] expected inputs as in its first call, (B, 4), received (B, 5). A layer that "
            "is called twice has one set of weights.");
}

TEST(ModelTest, ASequentialModelTakesTheShapeFromItsFirstLayer) {
  for (const Object& shape : {Object{{"batch_input_shape", Array{Config(), 4}}},
                              Object{{"input_shape", Array{4}}}, Object{{"input_dim", 4}}}) {
    Object config = shape;
    config.emplace_back("units", 2);
    Model model("m", ModelKind::kSequential);
    model.append("Dense", config);
    EXPECT_EQ(model.parameters().total(), 10);
    EXPECT_EQ(model.inputs()[0].name, "input_layer");
    EXPECT_EQ(model.outputs()[0].name, "dense");
  }
  Model model("m", ModelKind::kSequential);
  EXPECT_EQ(error_of([&] {
              model.append("Dense", Object{{"units", 2}});
            }),
            "[Dense] expected an input shape in front of the first layer, received none. Start "
            "the model with an InputLayer.");
}

TEST(ModelTest, IntegerInputsNeedARescaling) {
  Model model;
  Object config = {{"batch_shape", Array{Config(), 4}}, {"dtype", "uint8"}};
  const Tensor x = model.add_input(config);
  EXPECT_EQ(model.type(x).dtype, DType::kUInt8);
  const LayerId dense = model.add_layer("Dense", Object{{"units", 2}});
  EXPECT_EQ(error_of([&] { model.call(dense, {x}); }),
            "[dense] expected numbers of floating point, received uint8. Put a Rescaling layer "
            "before it.");
  const LayerId rescaling = model.add_layer("Rescaling", Object{{"scale", 1.0 / 255}});
  EXPECT_EQ(model.type(model.call(rescaling, {x})[0]).dtype, DType::kFloat32);
}

TEST(ModelTest, InputsCanBeOrderedAndMustBeInputs) {
  Model model;
  const Tensor a = add_input(model, {4});
  const Tensor b = add_input(model, {5});
  const Tensor y = model.call(model.add_layer("Concatenate", Object{}), {a, b})[0];
  model.set_inputs({b, a});
  EXPECT_EQ(model.inputs()[0].name, "input_layer_1");
  EXPECT_NE(error_of([&] {
              model.set_inputs({y, a});
            }).find("expected an InputLayer"),
            std::string::npos);
  EXPECT_NE(error_of([&] { model.set_inputs({a}); }).find("expected each of its 2 InputLayers"),
            std::string::npos);
  EXPECT_NE(error_of([&] { model.check_complete(); }).find("expected an output"),
            std::string::npos);
  model.set_outputs({y});
  model.check_complete();
}

}  // namespace
}  // namespace plimsoll::layers
