#include <array>

#include "base/error.h"
#include "base/suggest.h"
#include "layers/kinds/all_layers.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::layers {
namespace {

struct Entry {
  std::string_view class_name;
  LayerMaker make;
  LayerTraits traits{};
};

using enum CallForm;
using enum MaskUse;

constexpr LayerTraits kOfConvNeXt{.module = "keras.src.applications.convnext"};
constexpr LayerTraits kLooksUp{.looks_up = true};
constexpr LayerTraits kSpatialDropout{.masks = kPasses, .says_trainable = false};

// Sorted by class name.
constexpr std::array kLayers = {
    Entry{"Activation", make_activation, {.masks = kPasses}},
    Entry{"ActivityRegularization", make_activity_regularization, {.masks = kPasses}},
    Entry{"AdaptiveAveragePooling1D", make_adaptive_average_pooling1d},
    Entry{"AdaptiveAveragePooling2D", make_adaptive_average_pooling2d},
    Entry{"AdaptiveAveragePooling3D", make_adaptive_average_pooling3d},
    Entry{"AdaptiveMaxPooling1D", make_adaptive_max_pooling1d},
    Entry{"AdaptiveMaxPooling2D", make_adaptive_max_pooling2d},
    Entry{"AdaptiveMaxPooling3D", make_adaptive_max_pooling3d},
    Entry{"Add", make_add, {.masks = kMerges}},
    Entry{"AdditiveAttention", make_additive_attention, {.calls = kWithMore}},
    Entry{"AlphaDropout", make_alpha_dropout, {.masks = kPasses}},
    Entry{"Attention", make_attention, {.calls = kWithMore}},
    Entry{"AutoContrast", make_auto_contrast},
    Entry{"Average", make_average, {.masks = kMerges}},
    Entry{"AveragePooling1D", make_average_pooling1d},
    Entry{"AveragePooling2D", make_average_pooling2d},
    Entry{"AveragePooling3D", make_average_pooling3d},
    Entry{"BatchNormalization",
          make_batch_normalization,
          {.masks = kPasses, .calls = kWithMask, .keeps_state = true}},
    Entry{"Bidirectional", make_bidirectional, {.calls = kWithMore}},
    Entry{"CategoryEncoding", make_category_encoding, {.calls = kWithMore}},
    Entry{"CenterCrop", make_center_crop},
    Entry{"Concatenate", make_concatenate},
    Entry{"ContrastLimitedAdaptiveHistogramEqualization",
          make_contrast_limited_adaptive_histogram_equalization},
    Entry{"Conv1D", make_conv1d},
    Entry{"Conv1DTranspose", make_conv1d_transpose},
    Entry{"Conv2D", make_conv2d},
    Entry{"Conv2DTranspose", make_conv2d_transpose},
    Entry{"Conv3D", make_conv3d},
    Entry{"Conv3DTranspose", make_conv3d_transpose},
    Entry{"ConvLSTM1D", make_conv_lstm1d, {.calls = kWithMore}},
    Entry{"ConvLSTM2D", make_conv_lstm2d, {.calls = kWithMore}},
    Entry{"ConvLSTM3D", make_conv_lstm3d, {.calls = kWithMore}},
    Entry{"Cropping1D", make_cropping1d},
    Entry{"Cropping2D", make_cropping2d},
    Entry{"Cropping3D", make_cropping3d},
    Entry{"CustomScaleLayer",
          make_custom_scale_layer,
          {.module = "keras.src.applications.inception_resnet_v2"}},
    Entry{"CutMix", make_cut_mix},
    Entry{"Dense", make_dense, {.masks = kPasses}},
    Entry{"DepthwiseConv1D", make_depthwise_conv1d},
    Entry{"DepthwiseConv2D", make_depthwise_conv2d},
    Entry{"Discretization", make_discretization, {.says_trainable = false}},
    Entry{"Dot", make_dot},
    Entry{"Dropout", make_dropout, {.masks = kPasses}},
    Entry{"ELU", make_elu, {.masks = kPasses}},
    Entry{"EinsumDense", make_einsum_dense},
    Entry{"Embedding", make_embedding, {.reads_numbers = true}},
    Entry{"Equalization", make_equalization},
    Entry{"Flatten", make_flatten},
    Entry{"GRU", make_gru, {.calls = kWithMore, .keeps_state = true}},
    Entry{"GaussianDropout", make_gaussian_dropout, {.masks = kPasses}},
    Entry{"GaussianNoise", make_gaussian_noise, {.masks = kPasses}},
    Entry{"GlobalAveragePooling1D", make_global_average_pooling1d, {.calls = kWithMask}},
    Entry{"GlobalAveragePooling2D", make_global_average_pooling2d},
    Entry{"GlobalAveragePooling3D", make_global_average_pooling3d},
    Entry{"GlobalMaxPooling1D", make_global_max_pooling1d},
    Entry{"GlobalMaxPooling2D", make_global_max_pooling2d},
    Entry{"GlobalMaxPooling3D", make_global_max_pooling3d},
    Entry{"GroupNormalization", make_group_normalization, {.masks = kPasses}},
    Entry{"GroupQueryAttention",
          make_grouped_query_attention,
          {.masks = kPasses, .calls = kWithMore, .code_name = "GroupedQueryAttention"}},
    Entry{"HashedCrossing", make_hashed_crossing, {.says_trainable = false}},
    Entry{"Hashing", make_hashing, kLooksUp},
    Entry{"Identity", make_identity, {.masks = kPasses}},
    Entry{"InputLayer", make_input_layer},
    Entry{"IntegerLookup", make_integer_lookup, kLooksUp},
    Entry{"LSTM", make_lstm, {.calls = kWithMore, .keeps_state = true}},
    Entry{"LayerNormalization", make_layer_normalization, {.masks = kPasses}},
    Entry{"LayerScale", make_layer_scale, kOfConvNeXt},
    Entry{"LeakyReLU", make_leaky_re_lu, {.masks = kPasses}},
    Entry{"LocallyConnected1D", make_locally_connected1d},
    Entry{"LocallyConnected2D", make_locally_connected2d},
    Entry{"Masking", make_masking},
    Entry{"MaxPooling1D", make_max_pooling1d},
    Entry{"MaxPooling2D", make_max_pooling2d},
    Entry{"MaxPooling3D", make_max_pooling3d},
    Entry{"Maximum", make_maximum, {.masks = kMerges}},
    Entry{"MelSpectrogram", make_mel_spectrogram},
    Entry{"Minimum", make_minimum, {.masks = kMerges}},
    Entry{"MixUp", make_mix_up},
    Entry{"MultiHeadAttention",
          make_multi_head_attention,
          {.masks = kPasses, .calls = kWithMore, .takes_masks_off = true}},
    Entry{"Multiply", make_multiply, {.masks = kMerges}},
    Entry{"Normalization", make_normalization, {.masks = kPasses}},
    Entry{"Operation", make_operation},
    Entry{"PReLU", make_p_re_lu, {.masks = kPasses}},
    Entry{"Permute", make_permute},
    Entry{"RMSNormalization", make_rms_normalization},
    Entry{"RNN", make_rnn, {.calls = kWithMore, .keeps_state = true}},
    Entry{"RandAugment", make_rand_augment},
    Entry{"RandomBrightness", make_random_brightness},
    Entry{"RandomColorDegeneration", make_random_color_degeneration},
    Entry{"RandomColorJitter", make_random_color_jitter},
    Entry{"RandomContrast", make_random_contrast},
    Entry{"RandomCrop", make_random_crop},
    Entry{"RandomErasing", make_random_erasing},
    Entry{"RandomFlip", make_random_flip},
    Entry{"RandomGaussianBlur", make_random_gaussian_blur},
    Entry{"RandomGrayscale", make_random_grayscale},
    Entry{"RandomHue", make_random_hue},
    Entry{"RandomInvert", make_random_invert},
    Entry{"RandomPerspective", make_random_perspective},
    Entry{"RandomPosterization", make_random_posterization},
    Entry{"RandomRotation", make_random_rotation},
    Entry{"RandomSaturation", make_random_saturation},
    Entry{"RandomSharpness", make_random_sharpness},
    Entry{"RandomShear", make_random_shear},
    Entry{"RandomTranslation", make_random_translation},
    Entry{"RandomZoom", make_random_zoom},
    Entry{"ReLU", make_re_lu, {.masks = kPasses}},
    Entry{"RepeatVector", make_repeat_vector},
    Entry{"Rescaling", make_rescaling, {.masks = kPasses}},
    Entry{"Reshape", make_reshape},
    Entry{"Resizing", make_resizing},
    Entry{"ReversibleEmbedding",
          make_reversible_embedding,
          {.calls = kWithMore, .reads_numbers = true}},
    Entry{"STFTSpectrogram", make_stft_spectrogram},
    Entry{"SeparableConv1D", make_separable_conv1d},
    Entry{"SeparableConv2D", make_separable_conv2d},
    Entry{"SimpleRNN", make_simple_rnn, {.calls = kWithMore, .keeps_state = true}},
    Entry{"Softmax", make_softmax, {.masks = kPasses, .calls = kWithMask}},
    Entry{"Solarization", make_solarization},
    Entry{"SpatialDropout1D", make_spatial_dropout1d, kSpatialDropout},
    Entry{"SpatialDropout2D", make_spatial_dropout2d, kSpatialDropout},
    Entry{"SpatialDropout3D", make_spatial_dropout3d, kSpatialDropout},
    Entry{"SpectralNormalization", make_spectral_normalization, {.lists_inner_kernel = true}},
    Entry{
        "StochasticDepth", make_stochastic_depth, {.masks = kPasses, .module = kOfConvNeXt.module}},
    Entry{"StringLookup", make_string_lookup, kLooksUp},
    Entry{"Subtract", make_subtract, {.masks = kMerges}},
    Entry{"TextVectorization", make_text_vectorization, kLooksUp},
    Entry{"TimeDistributed", make_time_distributed, {.masks = kPasses, .calls = kWithMask}},
    Entry{"UnitNormalization", make_unit_normalization, {.masks = kPasses}},
    Entry{"UpSampling1D", make_up_sampling1d},
    Entry{"UpSampling2D", make_up_sampling2d},
    Entry{"UpSampling3D", make_up_sampling3d},
    Entry{"ZeroPadding1D", make_zero_padding1d},
    Entry{"ZeroPadding2D", make_zero_padding2d},
    Entry{"ZeroPadding3D", make_zero_padding3d},
};

using Refusal = RefusedLayer;

constexpr std::string_view kNotHere = "this version of Plimsoll does not train it";
constexpr std::string_view kWrapped = "inside of a layer a model stands in TimeDistributed only";

constexpr std::array kRefusals = {
    Refusal{"Lambda", "it holds Python code, which a file cannot be trusted with",
            "Replace it by layers, such as Rescaling, Activation or Reshape."},
    Refusal{"TFOpLambda", "inside of another layer a TensorFlow function is not read",
            "Rebuild the model with Keras layers."},
    Refusal{"TensorFlowOpLayer", "it holds a TensorFlow graph",
            "Rebuild the model with Keras layers."},
    Refusal{"RandomElasticTransform",
            "in a model Keras puts the first image of a batch in the place of the others",
            "Distort the images before training, or use RandomPerspective."},
    Refusal{"Sequential", kWrapped, "Call the model on the values."},
    Refusal{"Functional", kWrapped, "Call the model on the values."},
    Refusal{"Model", kWrapped, "Call the model on the values."},
};

// Keras's own, of any version, of which there is no more to say.
constexpr std::array<std::string_view, 7> kNotTrained = {
    "GRUCell",  "LSTMCell", "SimpleRNNCell", "StackedRNNCells", "AugMix", "MaxNumBoundingBoxes",
    "Pipeline",
};

std::string layer_name(const Config& config) {
  const Config* name = config.find("name");
  return name != nullptr && name->is_string() ? name->as_string() : "layer";
}

}  // namespace

std::vector<std::string> layer_class_names() {
  std::vector<std::string> names;
  names.reserve(kLayers.size());
  for (const Entry& entry : kLayers) names.emplace_back(entry.class_name);
  return names;
}

LayerTraits layer_traits(std::string_view class_name) {
  for (const Entry& entry : kLayers) {
    if (entry.class_name == class_name) return entry.traits;
  }
  return {};
}

std::vector<RefusedLayer> refused_layers() {
  std::vector<RefusedLayer> refused(kRefusals.begin(), kRefusals.end());
  for (const std::string_view name : kNotTrained) refused.push_back({name, kNotHere, ""});
  return refused;
}

std::shared_ptr<const Layer> make_layer(std::string_view class_name, const Config& config) {
  for (const Entry& entry : kLayers) {
    if (entry.class_name == class_name) return entry.make(config);
  }
  const std::string where = "[" + layer_name(config) + "] ";
  for (const Refusal& refusal : refused_layers()) {
    if (refusal.class_name != class_name) continue;
    std::string message = where + "expected a layer that Plimsoll trains, received " +
                          std::string(class_name) + ": " + std::string(refusal.why) + ".";
    if (!refusal.instead.empty()) message += " " + std::string(refusal.instead);
    throw Error(ErrorKind::kModel, message);
  }
  const std::vector<std::string> names = layer_class_names();
  throw Error(ErrorKind::kModel,
              where + "expected a layer of Keras, received " + std::string(class_name) +
                  ", which is unknown." + did_you_mean(class_name, names) +
                  " A custom layer cannot be trained from its name: replace it by Keras's.");
}

}  // namespace plimsoll::layers
