#include "formats/keras/keras_legacy.h"

#include <gtest/gtest.h>

#include "formats/json_text.h"
#include "formats/keras/keras_json.h"
#include "unit/base/expect_error.h"
#include "unit/formats/fixtures.h"

namespace plimsoll::formats {
namespace {

using test::expect_error;

LayerEntry modern(const std::string& class_name, const std::string& config) {
  LayerEntry entry;
  entry.class_name = class_name;
  entry.name = "l";
  entry.config = parse_json(config, "m");
  static const std::string origin = "m";
  modernize(entry, JsonSource(origin));
  return entry;
}

void expect_modern(const std::string& class_name, const std::string& config,
                   const std::string& expected_class, const std::string& expected) {
  const LayerEntry entry = modern(class_name, config);
  EXPECT_EQ(entry.class_name, expected_class);
  EXPECT_EQ(entry.config.to_json(), parse_json(expected, "m").to_json());
}

TEST(KerasLegacy, RenamesWhatKeras1CalledOtherwise) {
  expect_modern("Convolution2D",
                R"({"nb_filter": 8, "nb_row": 3, "nb_col": 5, "border_mode": "same",
                    "subsample": [2, 1], "dim_ordering": "th", "bias": false, "init": "uniform"})",
                "Conv2D",
                R"({"filters": 8, "padding": "same", "strides": [2, 1], "use_bias": false,
                    "kernel_initializer": "uniform", "kernel_size": [3, 5],
                    "data_format": "channels_first"})");
  expect_modern("Dense", R"({"output_dim": 4, "input_dim": 3, "init": "normal", "bias": true})",
                "Dense", R"({"units": 4, "kernel_initializer": "normal", "use_bias": true})");
  expect_modern("TimeDistributedDense", R"({"output_dim": 4, "init": "normal"})", "Dense",
                R"({"units": 4, "kernel_initializer": "normal"})");
  expect_modern("Dropout", R"({"p": 0.5})", "Dropout", R"({"rate": 0.5})");
  expect_modern("MaxPooling1D", R"({"pool_length": 2, "stride": 2, "border_mode": "valid"})",
                "MaxPooling1D", R"({"pool_size": 2, "strides": 2, "padding": "valid"})");
  expect_modern("Embedding", R"({"input_dim": 9, "output_dim": 4, "init": "uniform"})", "Embedding",
                R"({"input_dim": 9, "output_dim": 4, "embeddings_initializer": "uniform"})");
}

TEST(KerasLegacy, ReadsTheGatesOfKeras1) {
  expect_modern("LSTM",
                R"({"output_dim": 6, "inner_init": "orthogonal", "forget_bias_init": "one",
                    "inner_activation": "hard_sigmoid", "dropout_W": 0.5, "dropout_U": 0.0,
                    "consume_less": "cpu", "input_length": null, "input_dim": 1})",
                "LSTM",
                R"({"units": 6, "recurrent_initializer": "orthogonal",
                    "recurrent_activation": "hard_sigmoid", "dropout": 0.5,
                    "recurrent_dropout": 0.0, "unit_forget_bias": true})");
  // The GRU of Keras 1 and 2 had one bias.
  EXPECT_EQ(*modern("GRU", R"({"output_dim": 2, "inner_init": "x"})").config.find("reset_after"),
            Config(false));
  EXPECT_EQ(modern("GRU", R"({"units": 2})").config.find("reset_after"), nullptr);
}

TEST(KerasLegacy, ReadsEveryWayOfMerging) {
  EXPECT_EQ(modern("Merge", R"({"mode": "sum"})").class_name, "Add");
  EXPECT_EQ(modern("Merge", R"({"mode": "mul"})").class_name, "Multiply");
  EXPECT_EQ(modern("Merge", R"({"mode": "ave"})").class_name, "Average");
  EXPECT_EQ(modern("Merge", R"({"mode": "max"})").class_name, "Maximum");
  expect_modern("Merge", R"({"mode": "concat", "concat_axis": 1, "dot_axes": -1, "arguments": {}})",
                "Concatenate", R"({"axis": 1})");
  expect_modern("Merge", R"({"mode": "dot", "dot_axes": [1, 2]})", "Dot", R"({"axes": [1, 2]})");
  expect_error(ErrorKind::kModel, "[l] expected a Merge of mode",
               [] { modern("Merge", R"({"mode": "cos"})"); });
}

TEST(KerasLegacy, DropsWhatKeras3HasNoMore) {
  expect_modern("LSTM", R"({"units": 2, "implementation": 1, "time_major": false})", "LSTM",
                R"({"units": 2})");
  expect_error(ErrorKind::kModel, "time_major=true",
               [] { modern("LSTM", R"({"units": 2, "time_major": true})"); });
  expect_modern("BatchNormalization", R"({"axis": [3], "mode": 0, "fused": true})",
                "BatchNormalization", R"({"axis": 3})");
  expect_error(ErrorKind::kModel, "mode 2", [] { modern("BatchNormalization", R"({"mode": 2})"); });
  expect_modern("DepthwiseConv2D", R"({"kernel_initializer": "x", "groups": 1})", "DepthwiseConv2D",
                "{}");
  expect_modern("ThresholdedReLU", R"({"theta": 1.5})", "ReLU", R"({"threshold": 1.5})");
}

TEST(KerasLegacy, ReadsRegularizersOfKeras1) {
  expect_modern("Dense",
                R"({"output_dim": 1, "init": "x", "W_regularizer": {"l2": 0.1, "l1": 0.0,
                    "name": "WeightRegularizer"}})",
                "Dense",
                R"({"units": 1, "kernel_initializer": "x", "kernel_regularizer":
                    {"class_name": "L1L2", "config": {"l1": 0.0, "l2": 0.1}}})");
}

TEST(KerasLegacy, TranslatesLayersInsideWrappers) {
  const LayerEntry entry = modern("Bidirectional",
                                  R"({"layer": {"class_name": "LSTM", "config": {"output_dim": 3,
                                      "inner_init": "orthogonal"}}, "merge_mode": "concat"})");
  const Config& inner = entry.config.at("layer");
  EXPECT_EQ(inner.at("class_name"), Config("LSTM"));
  EXPECT_EQ(inner.at("config").at("units"), Config(3));
}

// Keras 1.0 wrote the order of axes for convolutions and pooling, not for UpSampling2D.
TEST(KerasLegacy, SilentLayersFollowTheOthersOrderOfAxes) {
  const auto model = [](const std::string& first, const std::string& second) {
    const std::string convolution = R"("config": {"nb_filter": 2, "nb_row": 1, "nb_col": 1)";
    return read_architecture(
        parse_json(R"({"class_name": "Sequential", "config": [
            {"class_name": "Convolution2D", )" +
                       convolution + first + R"(, "batch_input_shape": [null, 3, 4, 4]}},
            {"class_name": "UpSampling2D", "config": {"size": [2, 2]}},
            {"class_name": "Convolution2D", )" +
                       convolution + second + "}}]}",
                   "m"),
        "m", {});
  };
  const std::string th = R"(, "dim_ordering": "th")";
  const std::string tf = R"(, "dim_ordering": "tf")";
  const auto shape = [&](const std::string& first, const std::string& second) {
    const Model made = model(first, second);
    return made.type(made.outputs().front().tensor).shape.at(1);
  };
  EXPECT_EQ(shape(th, th), (std::vector<int64_t>{1, 2, 8, 8}));
  EXPECT_EQ(shape(tf, tf), (std::vector<int64_t>{1, 6, 8, 2}));
  EXPECT_EQ(shape(th, tf), (std::vector<int64_t>{1, 4, 8, 2}));  // no telling: Keras 2's default
}

TEST(KerasLegacy, LeavesKeras3Alone) {
  const std::string config = R"({"name": "d", "units": 3, "use_bias": true, "bias": 7})";
  expect_modern("Dense", config, "Dense", config);
}

}  // namespace
}  // namespace plimsoll::formats
