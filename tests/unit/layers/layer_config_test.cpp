#include <gtest/gtest.h>

#include <utility>

#include "layers/model/layer.h"
#include "unit/layers/support.h"

namespace plimsoll::layers {
namespace {

using testing::Array;
using testing::error_of;
using testing::Object;

Config with_name(std::string name, Object rest = {}) {
  Object object = {{"name", std::move(name)}};
  for (auto& entry : rest) object.push_back(std::move(entry));
  return object;
}

// The completed configuration without name, trainable and dtype, which all layers have.
std::string completed(std::string_view class_name, const Config& config) {
  Object rest;
  const std::shared_ptr<const Layer> layer = make_layer(class_name, config);
  for (const auto& [key, value] : layer->config().as_object()) {
    if (key != "name" && key != "trainable" && key != "dtype") rest.emplace_back(key, value);
  }
  return Config(rest).to_json();
}

constexpr const char* kGlorot =
    "{\"module\": \"keras.initializers\", \"class_name\": \"GlorotUniform\", \"config\": {}, "
    "\"registered_name\": null}";
constexpr const char* kZeros =
    "{\"module\": \"keras.initializers\", \"class_name\": \"Zeros\", \"config\": {}, "
    "\"registered_name\": null}";

// Keys and defaults are those that get_config of Keras 3.15 prints.
TEST(LayerConfigTest, DefaultsAreKeras) {
  EXPECT_EQ(completed("Dense", with_name("d", {{"units", 3}, {"kernel_regularizer", "l2"}})),
            std::string("{\"units\": 3, \"activation\": \"linear\", \"use_bias\": true, "
                        "\"kernel_initializer\": ") +
                kGlorot + ", \"bias_initializer\": " + kZeros +
                ", \"kernel_regularizer\": {\"module\": \"keras.regularizers\", \"class_name\": "
                "\"L2\", \"config\": {\"l2\": 0.01}, \"registered_name\": null}, "
                "\"bias_regularizer\": null, \"kernel_constraint\": null, "
                "\"bias_constraint\": null}");
  EXPECT_EQ(completed("Conv2D", with_name("c", {{"filters", 3}, {"kernel_size", 3}})),
            std::string("{\"filters\": 3, \"kernel_size\": [3, 3], \"strides\": [1, 1], "
                        "\"padding\": \"valid\", \"data_format\": \"channels_last\", "
                        "\"dilation_rate\": [1, 1], \"groups\": 1, \"activation\": \"linear\", "
                        "\"use_bias\": true, \"kernel_initializer\": ") +
                kGlorot + ", \"bias_initializer\": " + kZeros +
                ", \"kernel_regularizer\": null, \"bias_regularizer\": null, "
                "\"kernel_constraint\": null, \"bias_constraint\": null}");
  EXPECT_EQ(completed("MaxPooling2D", with_name("p", {{"pool_size", Array{2, 3}}})),
            "{\"pool_size\": [2, 3], \"padding\": \"valid\", \"strides\": [2, 3], "
            "\"data_format\": \"channels_last\"}");
  EXPECT_EQ(completed("GlobalMaxPooling2D", with_name("p")),
            "{\"data_format\": \"channels_last\", \"keepdims\": false}");
  EXPECT_EQ(completed("ReLU", with_name("r")),
            "{\"max_value\": null, \"negative_slope\": 0.0, \"threshold\": 0.0}");
  EXPECT_EQ(completed("LeakyReLU", with_name("r")), "{\"negative_slope\": 0.3}");
  EXPECT_EQ(completed("LeakyReLU", with_name("r", {{"alpha", 0.1}})), "{\"negative_slope\": 0.1}");
  EXPECT_EQ(completed("ELU", with_name("r")), "{\"alpha\": 1.0}");
  EXPECT_EQ(completed("Softmax", with_name("s")), "{\"axis\": -1}");
  EXPECT_EQ(completed("Dropout", with_name("d", {{"rate", 0.5}})),
            "{\"rate\": 0.5, \"seed\": null, \"noise_shape\": null}");
  EXPECT_EQ(completed("ZeroPadding2D", with_name("z", {{"padding", Array{1, 2}}})),
            "{\"padding\": [[1, 1], [2, 2]], \"data_format\": \"channels_last\"}");
  EXPECT_EQ(completed("Rescaling", with_name("r", {{"scale", 2.0}})),
            "{\"scale\": 2.0, \"offset\": 0.0}");
  EXPECT_EQ(completed("Activation", with_name("a", {{"activation", "swish"}})),
            "{\"activation\": \"silu\"}");
  EXPECT_EQ(make_layer("Add", with_name("a"))->config().to_json(),
            "{\"name\": \"a\", \"trainable\": true, \"dtype\": {\"module\": \"keras\", "
            "\"class_name\": \"DTypePolicy\", \"config\": {\"name\": \"float32\"}, "
            "\"registered_name\": null}}");
  EXPECT_EQ(make_layer("InputLayer", with_name("i", {{"batch_shape", Array{Config(), 3}}}))
                ->config()
                .to_json(),
            "{\"name\": \"i\", \"batch_shape\": [null, 3], \"dtype\": \"float32\"}");
}

TEST(LayerConfigTest, BatchNormalizationIsKeras) {
  const Config config = make_layer("BatchNormalization", with_name("b"))->config();
  EXPECT_EQ(config.at("axis").as_int(), -1);
  EXPECT_EQ(config.at("momentum").as_double(), 0.99);
  EXPECT_EQ(config.at("epsilon").as_double(), 1e-3);
  EXPECT_EQ(config.at("moving_variance_initializer").at("class_name").as_string(), "Ones");
  EXPECT_EQ(make_layer("BatchNormalization", with_name("b", {{"axis", Array{3}}}))
                ->config()
                .at("axis")
                .as_int(),
            3);
}

// The same, of layers over volumes and of adaptive poolings.
std::vector<std::pair<std::string, Object>> volume_configurations() {
  return {
      {"AdaptiveAveragePooling1D", {{"output_size", 2}}},
      {"AdaptiveAveragePooling2D", {{"output_size", Array{2, 3}}}},
      {"AdaptiveMaxPooling1D", {{"output_size", Array{3}}}},
      {"AdaptiveMaxPooling2D", {{"output_size", 3}}},
      {"AdaptiveAveragePooling3D", {{"output_size", Array{1, 2, 3}}}},
      {"AdaptiveMaxPooling3D", {{"output_size", 2}, {"data_format", "channels_first"}}},
      {"AveragePooling3D", {{"pool_size", Array{1, 2, 3}}}},
      {"Conv3D", {{"filters", 4}, {"kernel_size", Array{1, 2, 3}}, {"groups", 2}}},
      {"Conv3DTranspose", {{"filters", 4}, {"kernel_size", 3}, {"output_padding", 0}}},
      {"Cropping3D", {{"cropping", Array{Array{0, 1}, Array{2, 3}, Array{1, 0}}}}},
      {"GlobalAveragePooling3D", {{"data_format", "channels_first"}}},
      {"GlobalMaxPooling3D", {{"keepdims", true}}},
      {"MaxPooling3D", {{"strides", Array{1, 2, 1}}}},
      {"UpSampling3D", {{"size", Array{1, 2, 3}}}},
      {"ZeroPadding3D", {{"padding", Array{1, 2, 3}}}},
      {"SpatialDropout3D", {{"rate", 0.2}, {"data_format", "channels_first"}}},
  };
}

// The same, of layers that are made of operators, and of cells in RNN.
std::vector<std::pair<std::string, Object>> operator_configurations() {
  const Config cell =
      Object{{"class_name", "GRUCell"}, {"config", Object{{"name", "c"}, {"units", 3}}}};
  return {
      {"AdditiveAttention", {{"use_scale", false}, {"dropout", 0.1}}},
      {"AlphaDropout", {{"rate", 0.2}, {"seed", 3}}},
      {"CategoryEncoding", {{"num_tokens", 5}, {"output_mode", "count"}}},
      {"CustomScaleLayer", {{"scale", 0.2}}},
      {"Discretization", {{"bin_boundaries", Array{0.5, 1.5}}, {"output_mode", "one_hot"}}},
      {"HashedCrossing", {{"num_bins", 9}, {"output_mode", "one_hot"}}},
      {"Hashing", {{"num_bins", 9}, {"salt", Array{1, 2}}, {"mask_value", "a"}}},
      {"IntegerLookup",
       {{"vocabulary", Array{3, 7}}, {"output_mode", "count"}, {"oov_method", "farmhash"}}},
      {"StringLookup", {{"vocabulary", Array{"a", "b"}}, {"mask_token", ""}}},
      {"TextVectorization", {{"ngrams", Array{1, 3}}, {"output_sequence_length", 5}}},
      {"EinsumDense",
       {{"equation", "abc,cd->abd"}, {"output_shape", Array{Config(), 4}}, {"bias_axes", "d"}}},
      {"GroupQueryAttention",
       {{"head_dim", 3},
        {"num_query_heads", 4},
        {"num_key_value_heads", 2},
        {"sliding_window", 2},
        {"use_gate", true}}},
      {"ConvLSTM1D", {{"filters", 2}, {"kernel_size", 3}, {"padding", "same"}, {"dropout", 0.5}}},
      {"ConvLSTM2D", {{"filters", 2}, {"kernel_size", 3}, {"return_sequences", true}}},
      {"ConvLSTM3D", {{"filters", 2}, {"kernel_size", 3}, {"kernel_constraint", "non_neg"}}},
      {"LayerScale", {{"init_values", 0.1}, {"projection_dim", 4}}},
      {"RNN", {{"cell", Array{cell, cell}}, {"return_sequences", true}}},
      {"ReversibleEmbedding",
       {{"input_dim", 5}, {"output_dim", 4}, {"tie_weights", false}, {"logit_soft_cap", 2.0}}},
  };
}

Config inner_dense() {
  return Object{{"class_name", "Dense"}, {"config", Object{{"name", "inner"}, {"units", 3}}}};
}

// A configuration of each other class, with options other than the usual ones.
std::vector<std::pair<std::string, Object>> configurations() {
  const Config lstm =
      Object{{"class_name", "LSTM"}, {"config", Object{{"name", "forward_l"}, {"units", 3}}}};
  const Config dense =
      Object{{"class_name", "Dense"}, {"config", Object{{"name", "d"}, {"units", 3}}}};
  return {
      {"Activation",
       {{"activation", Object{{"class_name", "LeakyReLU"},
                              {"config", Object{{"name", "l"}, {"negative_slope", 0.1}}}}}}},
      {"ActivityRegularization", {{"l1", 0.1}}},
      {"Add", {{"activity_regularizer", "l2"}}},
      {"Average", {}},
      {"AveragePooling1D", {{"pool_size", 3}, {"data_format", "channels_first"}}},
      {"AveragePooling2D", {{"pool_size", 2}}},
      {"BatchNormalization", {{"scale", false}}},
      {"Concatenate", {{"axis", 2}}},
      {"Conv1D", {{"filters", 4}, {"kernel_size", 3}, {"padding", "causal"}}},
      {"Conv1DTranspose", {{"filters", 4}, {"kernel_size", 3}, {"strides", 2}}},
      {"Conv2D", {{"filters", 4}, {"kernel_size", 3}, {"padding", "same"}}},
      {"Conv2DTranspose",
       {{"filters", 4}, {"kernel_size", 3}, {"strides", 2}, {"output_padding", 1}}},
      {"Cropping1D", {{"cropping", Array{1, 2}}}},
      {"Cropping2D", {{"cropping", Array{Array{0, 1}, Array{2, 3}}}}},
      {"Dense", {{"units", 4}, {"activation", "tanh"}, {"trainable", false}}},
      {"DepthwiseConv1D", {{"kernel_size", 3}}},
      {"DepthwiseConv2D", {{"kernel_size", 3}, {"depthwise_constraint", "max_norm"}}},
      {"Dot", {{"axes", Array{2, 1}}, {"normalize", true}}},
      {"Dropout", {{"rate", 0.25}, {"seed", 7}, {"noise_shape", Array{Config(), 1, Config()}}}},
      {"ELU", {}},
      {"Flatten", {}},
      {"GlobalAveragePooling1D", {}},
      {"GlobalAveragePooling2D", {{"keepdims", true}}},
      {"GlobalMaxPooling1D", {{"keepdims", true}}},
      {"GlobalMaxPooling2D", {}},
      {"Identity", {}},
      {"InputLayer", {{"batch_shape", Array{Config(), 8}}}},
      {"LeakyReLU", {}},
      {"MaxPooling1D", {{"pool_size", 3}, {"strides", 2}}},
      {"MaxPooling2D", {{"strides", 1}}},
      {"Maximum", {}},
      {"Minimum", {}},
      {"Multiply", {}},
      {"ReLU", {{"max_value", 6.0}}},
      {"Rescaling", {{"scale", 0.5}}},
      {"Reshape", {{"target_shape", Array{-1, 4}}}},
      {"SeparableConv1D", {{"filters", 4}, {"kernel_size", 3}, {"padding", "causal"}}},
      {"SeparableConv2D", {{"filters", 4}, {"kernel_size", 3}, {"depth_multiplier", 2}}},
      {"Softmax", {}},
      {"Subtract", {}},
      {"UnitNormalization", {{"axis", 1}}},
      {"UpSampling1D", {{"size", 3}}},
      {"UpSampling2D", {{"size", 3}, {"interpolation", "bilinear"}}},
      {"ZeroPadding1D", {{"padding", 2}}},
      {"ZeroPadding2D", {}},
      {"Attention", {{"use_scale", true}}},
      {"Bidirectional", {{"layer", lstm}, {"merge_mode", "sum"}}},
      {"Embedding", {{"input_dim", 9}, {"output_dim", 4}, {"mask_zero", true}}},
      {"GRU", {{"units", 3}, {"reset_after", false}, {"return_state", true}}},
      {"GaussianDropout", {{"rate", 0.2}}},
      {"GaussianNoise", {{"stddev", 0.5}}},
      {"GroupNormalization", {{"groups", 2}}},
      {"LSTM", {{"units", 3}, {"go_backwards", true}, {"dropout", 0.1}}},
      {"LayerNormalization", {{"axis", 2}, {"epsilon", 1e-5}}},
      {"RMSNormalization", {{"axis", 2}, {"epsilon", 1e-5}}},
      {"MelSpectrogram", {{"fft_length", 64}, {"window", "hamming"}, {"num_mel_bins", 12}}},
      {"STFTSpectrogram", {{"mode", "psd"}, {"frame_length", 20}, {"expand_dims", true}}},
      {"SpectralNormalization", {{"layer", inner_dense()}, {"power_iterations", 2}}},
      {"Masking", {{"mask_value", -1.0}}},
      {"MultiHeadAttention", {{"num_heads", 2}, {"key_dim", 3}, {"output_shape", 5}}},
      {"Normalization", {{"axis", -1}, {"mean", Array{1.0, 2.0}}, {"variance", Array{3.0, 4.0}}}},
      {"Operation", {{"operation", "Mean"}, {"axis", 1}, {"keepdims", true}}},
      {"PReLU", {{"shared_axes", Array{1}}}},
      {"Permute", {{"dims", Array{2, 1}}}},
      {"RepeatVector", {{"n", 3}}},
      {"SimpleRNN", {{"units", 3}, {"unroll", true}}},
      {"SpatialDropout1D", {{"rate", 0.2}}},
      {"SpatialDropout2D", {{"rate", 0.2}}},
      {"TimeDistributed", {{"layer", dense}}},
  };
}

// The same, of layers for images.
std::vector<std::pair<std::string, Object>> image_configurations() {
  return {
      {"AutoContrast", {{"value_range", Array{0, 1}}}},
      {"CenterCrop", {{"height", 3}, {"width", 4}, {"data_format", "channels_first"}}},
      {"ContrastLimitedAdaptiveHistogramEqualization",
       {{"value_range", Array{0, 1}}, {"clip_limit", 2.5}, {"tile_grid_size", Array{4, 3}}}},
      {"CutMix", {{"factor", Array{0.2, 0.6}}, {"seed", 3}}},
      {"Equalization", {{"bins", 64}, {"value_range", Array{0, 1}}}},
      {"LocallyConnected1D", {{"filters", 3}, {"kernel_size", 2}, {"strides", 2}}},
      {"LocallyConnected2D", {{"filters", 3}, {"kernel_size", Array{2, 1}}, {"use_bias", false}}},
      {"MixUp", {{"alpha", 0.4}, {"data_format", "channels_first"}}},
      {"RandAugment", {{"num_ops", 3}, {"factor", 0.2}, {"interpolation", "nearest"}}},
      {"RandomBrightness", {{"factor", 0.2}, {"seed", 3}}},
      {"RandomColorDegeneration", {{"factor", Array{0.1, 0.3}}}},
      {"RandomColorJitter", {{"brightness_factor", 0.2}, {"hue_factor", Array{0.1, 0.2}}}},
      {"RandomContrast", {{"factor", 0.2}, {"value_range", Array{0, 1}}}},
      {"RandomCrop", {{"height", 3}, {"width", 4}, {"seed", 3}}},
      {"RandomErasing", {{"scale", 0.2}, {"fill_value", Array{1, 2.5, 3}}}},
      {"RandomFlip", {{"mode", "vertical"}, {"bounding_box_format", "xyxy"}}},
      {"RandomGaussianBlur", {{"kernel_size", Array{3, 5}}, {"sigma", Array{0.2, 0.4}}}},
      {"RandomGrayscale", {{"factor", 0.2}}},
      {"RandomHue", {{"factor", 0.2}}},
      {"RandomInvert", {{"factor", 0.2}}},
      {"RandomPerspective", {{"factor", 0.5}, {"scale", 0.3}, {"fill_value", 2.0}}},
      {"RandomPosterization", {{"factor", Array{3, 5}}}},
      {"RandomRotation", {{"factor", 0.2}, {"fill_mode", "wrap"}}},
      {"RandomSaturation", {{"factor", Array{0.3, 0.7}}}},
      {"RandomSharpness", {{"factor", 0.5}}},
      {"RandomShear", {{"x_factor", 0.2}, {"interpolation", "nearest"}}},
      {"RandomTranslation", {{"height_factor", 0.2}, {"width_factor", Array{-0.1, 0.2}}}},
      {"RandomZoom", {{"height_factor", 0.2}, {"width_factor", Array{-0.1, 0.2}}}},
      {"Resizing", {{"height", 3}, {"width", 4}, {"pad_to_aspect_ratio", true}}},
      {"Solarization", {{"addition_factor", 0.2}, {"threshold_factor", Array{0.1, 0.4}}}},
      {"StochasticDepth", {{"drop_path_rate", 0.1}}},
  };
}

TEST(LayerConfigTest, ACompletedConfigurationRoundTrips) {
  std::vector<std::pair<std::string, Object>> cases = configurations();
  for (auto& one : image_configurations()) cases.push_back(std::move(one));
  for (auto& volume : volume_configurations()) cases.push_back(std::move(volume));
  for (auto& one : operator_configurations()) cases.push_back(std::move(one));
  ASSERT_EQ(cases.size(), layer_class_names().size());
  for (const auto& [class_name, rest] : cases) {
    const Config first = make_layer(class_name, with_name("x", rest))->config();
    EXPECT_EQ(make_layer(class_name, first)->config(), first) << class_name;
  }
}

std::string refusal(std::string_view class_name, Object rest) {
  return error_of([&] { make_layer(class_name, with_name("conv_3", std::move(rest))); });
}

TEST(LayerRefusalTest, UnknownAndUntrainableClasses) {
  EXPECT_EQ(refusal("Conv2d", {}),
            "[conv_3] expected a layer of Keras, received Conv2d, which is unknown. Did you mean "
            "\"Conv2D\"? A custom layer cannot be trained from its name: replace it by Keras's.");
  EXPECT_EQ(refusal("Lambda", {}),
            "[conv_3] expected a layer that Plimsoll trains, received Lambda: it holds Python "
            "code, which a file cannot be trusted with. Replace it by layers, such as Rescaling, "
            "Activation or Reshape.");
  EXPECT_NE(refusal("AugMix", {}).find("does not train it"), std::string::npos);
}

TEST(LayerRefusalTest, OptionsThatAreWrong) {
  const Config three = 3;
  EXPECT_EQ(refusal("Conv2D", {{"kernel_size", 3}}),
            "[conv_3] filters: expected an integer of at least 1, received none.");
  EXPECT_EQ(refusal("Conv2D", {{"filters", "many"}, {"kernel_size", 3}}),
            "[conv_3] filters: expected an integer of at least 1, received \"many\".");
  EXPECT_EQ(refusal("Conv2D", {{"filters", 0}, {"kernel_size", 3}}),
            "[conv_3] filters: expected an integer of at least 1, received 0.");
  EXPECT_EQ(refusal("Conv2D", {{"filters", 2}, {"kernel_size", Array{3}}}),
            "[conv_3] kernel_size: expected one or two integers of at least 1, received [3].");
  EXPECT_EQ(
      refusal("Conv2D", {{"filters", 2}, {"kernel_size", 3}, {"padding", "causal"}}).substr(0, 71),
      "[conv_3] padding: expected \"valid\" or \"same\", received \"causal\". Causal");
  EXPECT_EQ(refusal("Conv2D", {{"filters", 2}, {"kernel_size", 3}, {"padding", "sane"}}),
            "[conv_3] padding: expected \"valid\" or \"same\", received \"sane\". Did you mean "
            "\"same\"?");
  EXPECT_EQ(
      refusal("Conv2D", {{"filters", 2}, {"kernel_size", 3}, {"data_format", "channel_first"}}),
      "[conv_3] data_format: expected \"channels_last\" or \"channels_first\", received "
      "\"channel_first\". Did you mean \"channels_first\"?");
  EXPECT_EQ(refusal("Conv1D", {{"filters", 2}, {"kernel_size", Array{3, 3}}}),
            "[conv_3] kernel_size: expected one integer of at least 1, received [3, 3].");
  EXPECT_EQ(refusal("Conv2DTranspose",
                    {{"filters", 2}, {"kernel_size", 3}, {"strides", 2}, {"output_padding", 2}}),
            "[conv_3] output_padding: expected less than strides, received 2.");
  EXPECT_EQ(refusal("UpSampling2D", {{"interpolation", "bicubic"}}),
            "[conv_3] interpolation: expected \"nearest\" or \"bilinear\", received \"bicubic\". "
            "Use bilinear, or a Conv2DTranspose that learns it.");
  EXPECT_EQ(refusal("ZeroPadding1D", {{"padding", Array{1, -2}}}),
            "[conv_3] padding: expected n or [before, after], received [1, -2].");
  EXPECT_EQ(refusal("Cropping2D", {{"cropping", Array{1, 2, 3}}}),
            "[conv_3] cropping: expected n, [rows, columns] or [[top, bottom], [left, right]], "
            "received [1, 2, 3].");
  EXPECT_EQ(refusal("ZeroPadding3D", {{"padding", Array{1, 2}}}),
            "[conv_3] padding: expected n, [slabs, rows, columns] or three times [before, after], "
            "received [1, 2].");
  EXPECT_EQ(
      refusal("Conv3D", {{"filters", 2}, {"kernel_size", 3}, {"padding", "causal"}}),
      "[conv_3] padding: expected \"valid\" or \"same\", received \"causal\". Causal padding "
      "exists in one dimension only: put a ZeroPadding3D before the layer and use \"valid\".");
  EXPECT_EQ(refusal("Conv2D", {{"filters", 2}, {"kernel_size", 3}, {"groups", 4}}),
            "[conv_3] groups: expected a divisor of filters=2, received 4.");
  EXPECT_EQ(refusal("Conv2D", {{"filters", 2}, {"kernel_size", 3}, {"stride", 2}}),
            "[conv_3] stride: expected no such option of Conv2D, received 2. Did you mean "
            "\"strides\"?");
  EXPECT_EQ(refusal("Dense", {{"units", 2}, {"activation", "rleu"}}),
            "[conv_3] activation: expected the name of an activation, received \"rleu\". Did you "
            "mean \"relu\"?");
  EXPECT_EQ(refusal("Dense", {{"units", 2}, {"kernel_initializer", "glorot"}}).substr(0, 81),
            "[conv_3] kernel_initializer: expected the name of an initializer, received \"gloro");
  EXPECT_EQ(refusal("Dense", {{"units", 2}, {"bias_regularizer", "l3"}}),
            "[conv_3] bias_regularizer: expected L1, L2, L1L2 or OrthogonalRegularizer, received "
            "\"l3\". Did you mean \"L1\"?");
  EXPECT_EQ(refusal("Dense", {{"units", 2}, {"kernel_constraint", "max_nrom"}}),
            "[conv_3] kernel_constraint: expected max_norm, min_max_norm, non_neg or unit_norm, "
            "received \"max_nrom\". Did you mean \"max_norm\"?");
  EXPECT_EQ(refusal("Dense", {{"units", 2},
                              {"kernel_constraint", Object{{"class_name", "MaxNorm"},
                                                           {"config", Object{{"axes", 0}}}}}}),
            "[conv_3] kernel_constraint: axes: expected no such argument, received 0.");
  EXPECT_EQ(refusal("Dense", {{"units", 2}, {"dtype", "float16"}}),
            "[conv_3] dtype: expected float32, mixed_bfloat16 or mixed_float16, received float16. "
            "Build the model with one of these policies.");
  EXPECT_EQ(refusal("Dropout", {{"rate", 1.0}}),
            "[conv_3] rate: expected 0 to below 1, received 1.0.");
  EXPECT_NE(refusal("InputLayer", {{"batch_shape", Array{Config(), Config(), 3}}})
                .find("fixed input shape"),
            std::string::npos);
  EXPECT_EQ(refusal("Rescaling", {{"scale", Array{1.0, "a"}}}),
            "[conv_3] scale: expected a number, or a list of up to 64 numbers, one a channel, "
            "received [1.0, \"a\"].");
  EXPECT_NE(refusal("Reshape", {{"target_shape", Array{-1, -1}}}).find("of which one may be -1"),
            std::string::npos);
}

TEST(LayerConfigTest, TablesOfAnySizeAreNotMade) {
  constexpr int64_t kHuge = 4611686018427387905;
  for (const auto& [class_name, option] :
       {std::pair("STFTSpectrogram", "frame_length"), std::pair("STFTSpectrogram", "fft_length"),
        std::pair("MelSpectrogram", "fft_length"), std::pair("MelSpectrogram", "num_mel_bins")}) {
    EXPECT_NE(refusal(class_name, {{option, kHuge + 1}}).find("at most"), std::string::npos)
        << class_name << ", " << option;
  }
  EXPECT_NE(refusal("MelSpectrogram", {{"num_mel_bins", 400000}}).find("at most"),
            std::string::npos);
}

TEST(LayerConfigTest, OldAndEmptyKeysAreTaken) {
  EXPECT_EQ(
      completed("Dense", with_name("d", {{"units", 2},
                                         {"batch_input_shape", Array{Config(), 4}},
                                         {"activity_regularizer", Config()},
                                         {"something_new", Config()}})),
      completed("Dense", with_name("d", {{"units", 2}, {"activity_regularizer", Config()}}))
              .substr(0, completed("Dense", with_name("d", {{"units", 2},
                                                            {"activity_regularizer", Config()}}))
                                 .size() -
                             1) +
          ", \"something_new\": null}");
  const Config function = Object{{"class_name", "function"}, {"config", "relu"}};
  EXPECT_EQ(completed("Activation", with_name("a", {{"activation", function}})),
            "{\"activation\": \"relu\"}");
}

}  // namespace
}  // namespace plimsoll::layers
