#include "formats/keras/keras_legacy.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "formats/keras/config_edit.h"
#include "formats/keras/keras_operators.h"
#include "layers/kinds/sequence/inner_model.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::formats {
namespace {

using layers::Config;

struct Renaming {
  std::string_view from;
  std::string_view to;
};

// Classes of Keras 1 and 2 under their names of today.
constexpr std::array kClasses = {
    Renaming{"AtrousConvolution1D", "Conv1D"},
    Renaming{"AtrousConvolution2D", "Conv2D"},
    Renaming{"BatchNormalizationV1", "BatchNormalization"},
    Renaming{"BatchNormalizationV2", "BatchNormalization"},
    Renaming{"Convolution1D", "Conv1D"},
    Renaming{"Convolution2D", "Conv2D"},
    Renaming{"Convolution2DTranspose", "Conv2DTranspose"},
    Renaming{"Convolution3D", "Conv3D"},
    Renaming{"CuDNNGRU", "GRU"},
    Renaming{"CuDNNLSTM", "LSTM"},
    Renaming{"Deconvolution2D", "Conv2DTranspose"},
    Renaming{"SeparableConvolution2D", "SeparableConv2D"},
    Renaming{"TimeDistributedDense", "Dense"},
    Renaming{"ThresholdedReLU", "ReLU"},
};

// Options of Keras 1 that only changed their names, in any layer.
constexpr std::array kOptions = {
    Renaming{"init", "kernel_initializer"},
    Renaming{"inner_init", "recurrent_initializer"},
    Renaming{"inner_activation", "recurrent_activation"},
    Renaming{"W_regularizer", "kernel_regularizer"},
    Renaming{"U_regularizer", "recurrent_regularizer"},
    Renaming{"b_regularizer", "bias_regularizer"},
    Renaming{"W_constraint", "kernel_constraint"},
    Renaming{"U_constraint", "recurrent_constraint"},
    Renaming{"b_constraint", "bias_constraint"},
    Renaming{"bias", "use_bias"},
    Renaming{"border_mode", "padding"},
    Renaming{"subsample", "strides"},
    Renaming{"subsample_length", "strides"},
    Renaming{"atrous_rate", "dilation_rate"},
    Renaming{"nb_filter", "filters"},
    Renaming{"filter_length", "kernel_size"},
    Renaming{"dropout_W", "dropout"},
    Renaming{"dropout_U", "recurrent_dropout"},
    Renaming{"pool_length", "pool_size"},
    Renaming{"stride", "strides"},
    Renaming{"p", "rate"},
    Renaming{"sigma", "stddev"},
    Renaming{"beta_init", "beta_initializer"},
    Renaming{"gamma_init", "gamma_initializer"},
};

// Options without a meaning today: they said how to compute, or repeat what shapes say.
constexpr std::array<std::string_view, 9> kGone = {
    "consume_less", "implementation", "input_dtype",       "output_mask",     "fused",
    "adjustment",   "mode_type",      "output_shape_type", "output_mask_type"};

// Layers whose order of axes Keras 1.0 did not write.
constexpr std::array<std::string_view, 3> kSilentOrdering = {"Cropping2D", "UpSampling2D",
                                                             "ZeroPadding2D"};

constexpr std::array<std::string_view, 10> kKeras1Keys = {
    "nb_filter", "border_mode", "dim_ordering", "W_regularizer", "W_constraint",
    "subsample", "inner_init",  "dropout_W",    "pool_length",   "init"};

bool is_recurrent(std::string_view class_name) {
  return class_name == "LSTM" || class_name == "GRU" || class_name == "SimpleRNN";
}

// What a layer of cuDNN computes without an option for it.
void complete_cudnn(const std::string& class_name, ConfigEdit& config) {
  if (!class_name.starts_with("CuDNN")) return;
  config.set("recurrent_activation", "sigmoid");
  if (class_name == "CuDNNGRU") config.set("reset_after", true);
}

bool is_off(const Config& value) {
  return says_nothing(value) || (value.is_number() && value.as_double() == 0.0);
}

// {"name": "WeightRegularizer", "l1": 0.0, "l2": 0.1} as L1L2; null where both are nothing.
void modernize_regularizers(ConfigEdit& config) {
  for (const std::string_view key :
       {"kernel_regularizer", "recurrent_regularizer", "bias_regularizer", "gamma_regularizer",
        "beta_regularizer", "activity_regularizer", "embeddings_regularizer"}) {
    Config* value = config.find(key);
    if (value == nullptr || !value->is_object() || value->find("class_name") != nullptr) continue;
    const Config* l1 = value->find("l1");
    const Config* l2 = value->find("l2");
    if (l1 == nullptr && l2 == nullptr) continue;
    Config factors{Config::Object{}};
    factors.set("l1", l1 == nullptr ? Config(0.0) : *l1);
    factors.set("l2", l2 == nullptr ? Config(0.0) : *l2);
    *value = Config::Object{{"class_name", Config("L1L2")}, {"config", std::move(factors)}};
  }
}

void modernize_data_format(ConfigEdit& config) {
  const Config ordering = config.take("dim_ordering");
  if (!ordering.is_string() || config.has("data_format")) return;
  config.set("data_format", ordering.as_string() == "th" ? "channels_first" : "channels_last");
}

// Options of Keras 1 that say something else than a new name does.
void modernize_keras_1(std::string& class_name, ConfigEdit& config, const std::string& where,
                       const JsonSource& source) {
  if (class_name == "Embedding") {
    config.rename("init", "embeddings_initializer");
    config.rename("W_regularizer", "embeddings_regularizer");
    config.rename("W_constraint", "embeddings_constraint");
    const Config dropout = config.take("dropout");
    if (!is_off(dropout)) {
      log(LogLevel::kWarning,
          source.origin() + ": [" + where + "] the dropout of whole words that Keras 1 did in " +
              "Embedding (" + excerpt(dropout) +
              ") is left out, as Keras 2 did. A SpatialDropout1D after it does the same.");
    }
  } else if (class_name == "PReLU") {
    config.rename("init", "alpha_initializer");
  } else if (class_name == "Dense" || is_recurrent(class_name)) {
    config.rename("output_dim", "units");
    config.take("input_dim");
    config.take("input_length");
  } else if (class_name == "Conv1D") {
    config.take("input_dim");
    config.take("input_length");
  }
  if (class_name == "Conv2DTranspose") config.take("output_shape");
  const Config rows = config.take("nb_row");
  const Config columns = config.take("nb_col");
  if (!rows.is_null() && !columns.is_null()) {
    config.set("kernel_size", Config::Array{rows, columns});
  }
  const Config forget = config.take("forget_bias_init");
  if (class_name == "LSTM" && forget.is_string()) {
    config.set("unit_forget_bias", forget.as_string() == "one" || forget.as_string() == "ones");
  }
}

// Keras 1 had one layer for all ways of merging.
void modernize_merge(std::string& class_name, ConfigEdit& config, const std::string& where,
                     const JsonSource& source) {
  const Config mode = config.take("mode");
  const Config axis = config.take("concat_axis");
  const Config dot_axes = config.take("dot_axes");
  for (const std::string_view key : {"arguments", "output_shape", "layers"}) config.take(key);
  const std::string name = mode.is_string() ? mode.as_string() : excerpt(mode);
  if (name == "concat") {
    class_name = "Concatenate";
    config.set("axis", axis.is_null() ? Config(-1) : axis);
    return;
  }
  if (name == "dot") {
    class_name = "Dot";
    config.set("axes", dot_axes);
    return;
  }
  constexpr std::array kModes = {Renaming{"sum", "Add"}, Renaming{"mul", "Multiply"},
                                 Renaming{"ave", "Average"}, Renaming{"max", "Maximum"}};
  for (const Renaming& known : kModes) {
    if (known.from == name) {
      class_name = known.to;
      return;
    }
  }
  source.refuse(where, "a Merge of mode sum, mul, ave, max, concat or dot", name,
                "Its code is not in the file, or Keras has no such layer any more: use one of "
                "keras.layers.Add, Multiply, Average, Maximum, Concatenate or Dot.");
}

// Options of Keras 2 that Keras 3 has no more.
void modernize_keras_2(const std::string& class_name, ConfigEdit& config, const std::string& where,
                       const JsonSource& source) {
  const Config time_major = config.take("time_major");
  if (!is_off(time_major)) {
    source.refuse(where, "samples first", "time_major=true", "Save the model without time_major.");
  }
  if (class_name == "Embedding") config.take("input_length");
  if (class_name == "DepthwiseConv2D" || class_name == "SeparableConv2D") {
    // The depthwise kernel has options of its own; those of an ordinary kernel were never used.
    for (const std::string_view key :
         {"kernel_initializer", "kernel_regularizer", "kernel_constraint"}) {
      config.take(key);
    }
    if (class_name == "DepthwiseConv2D") {
      config.take("groups");
      config.take("filters");
    }
  }
  if (class_name == "SpatialDropout1D" || class_name == "SpatialDropout2D") {
    config.take("noise_shape");
  }
  if (class_name == "BatchNormalization") {
    const Config mode = config.take("mode");
    if (!is_off(mode)) {
      source.refuse(where, "normalization by feature (mode 0)", "mode " + excerpt(mode),
                    "Train the layer again with Keras 2 or 3, which have one mode.");
    }
  }
  if (Config* axis = config.find("axis"); class_name == "BatchNormalization" && axis != nullptr &&
                                          axis->is_array() && axis->as_array().size() == 1) {
    const Config only = axis->as_array()[0];
    *axis = only;
  }
}

// What Keras 1 and 2 called hard_sigmoid was a little steeper. The gates' weights make up for it
// (legacy_weights.h); elsewhere Keras 3 reads the name as its own, and so does Plimsoll.
void warn_of_hard_sigmoid(const ConfigEdit& config, const std::string& where,
                          const JsonSource& source) {
  const Config* name = config.find("activation");
  if (name == nullptr || *name != Config("hard_sigmoid")) return;
  log(LogLevel::kWarning,
      source.origin() + ": [" + where +
          "] activation is read as Keras 3's hard_sigmoid, clip(x / 6 + 0.5); " +
          "Keras 1 and 2 computed clip(0.2 x + 0.5).");
}

// Keras 2's default is another than Keras 3's where the file says nothing.
void complete_defaults(const std::string& class_name, ConfigEdit& config, bool old) {
  if (old && class_name == "GRU" && !config.has("reset_after")) config.set("reset_after", false);
}

// Keras 2's batch_input_shape, and what InputLayers never had a use for.
void modernize_input(Config& given) {
  ConfigEdit config(given);
  config.rename("batch_input_shape", "batch_shape");
  config.take("input_dtype");
  config.take("input_tensor");
  config.take("type_spec");
  config.take("trainable");
}

void modernize_entry(Config& entry, const JsonSource& source);

// The layers of a model that stands in a wrapper.
void modernize_model(Config& model, const JsonSource& source) {
  const Config* list = model.is_array() ? &model : model.find("layers");
  if (list == nullptr || !list->is_array()) return;
  Config::Array entries = list->as_array();
  for (Config& entry : entries) modernize_entry(entry, source);
  if (model.is_array()) {
    model = std::move(entries);
  } else {
    model.set("layers", std::move(entries));
  }
}

// One of them; how it is called stays.
void modernize_entry(Config& entry, const JsonSource& source) {
  const Config* class_name = entry.find("class_name");
  const Config* config = entry.find("config");
  if (class_name == nullptr || !class_name->is_string() || config == nullptr) return;
  Config own = *config;
  if (layers::is_inner_model(class_name->as_string())) {
    modernize_model(own, source);
    entry.set("config", std::move(own));
    return;
  }
  const Config* module = entry.find("module");
  if (!own.is_object() ||
      (module != nullptr && module->is_string() && is_operator_module(module->as_string()))) {
    return;
  }
  LayerEntry inner;
  inner.class_name = class_name->as_string();
  inner.config = std::move(own);
  if (const Config* name = inner.config.find("name"); name != nullptr && name->is_string()) {
    inner.name = name->as_string();
  }
  modernize(inner, source);
  entry.set("class_name", inner.class_name);
  entry.set("config", std::move(inner.config));
}

void modernize_wrapped(Config& wrapped, const JsonSource& source) {
  const Config* class_name = wrapped.find("class_name");
  const Config* config = wrapped.find("config");
  if (class_name == nullptr || !class_name->is_string() || config == nullptr ||
      !config->is_object()) {
    return;
  }
  if (layers::is_inner_model(class_name->as_string())) {
    modernize_entry(wrapped, source);
    return;
  }
  LayerEntry inner;
  inner.class_name = class_name->as_string();
  inner.config = *config;
  if (const Config* name = config->find("name"); name != nullptr && name->is_string()) {
    inner.name = name->as_string();
  }
  modernize(inner, source);
  const Config* module = wrapped.find("module");
  wrapped = keras_object(
      module != nullptr && module->is_string() ? module->as_string() : std::string("keras.layers"),
      inner.class_name, std::move(inner.config));
}

}  // namespace

bool is_keras_1(const std::string& class_name, const Config& config) {
  if (class_name == "TimeDistributedDense" || class_name.starts_with("Convolution") ||
      class_name.starts_with("AtrousConvolution") || class_name.starts_with("Deconvolution")) {
    return true;
  }
  return std::any_of(kKeras1Keys.begin(), kKeras1Keys.end(),
                     [&](std::string_view key) { return config.find(key) != nullptr; });
}

std::string common_ordering(const Config::Array& entries) {
  std::string common;
  for (const Config& entry : entries) {
    const Config* config = entry.find("config");
    const Config* ordering = config == nullptr ? nullptr : config->find("dim_ordering");
    if (ordering == nullptr || !ordering->is_string()) continue;
    if (!common.empty() && common != ordering->as_string()) return "";
    common = ordering->as_string();
  }
  return common;
}

void modernize(LayerEntry& entry, const JsonSource& source, const std::string& ordering) {
  const std::string where = entry.name.empty() ? entry.class_name : entry.name;
  if (entry.class_name == layers::kInputLayer) {
    modernize_input(entry.config);
    return;
  }
  const bool first = is_keras_1(entry.class_name, entry.config);
  const bool keras_2 = entry.config.find("implementation") != nullptr;
  ConfigEdit config(entry.config);
  if (entry.class_name == "ThresholdedReLU") config.rename("theta", "threshold");
  complete_cudnn(entry.class_name, config);
  for (const Renaming& known : kClasses) {
    if (entry.class_name == known.from) {
      entry.class_name = known.to;
      break;
    }
  }
  if (entry.class_name == "Merge") modernize_merge(entry.class_name, config, where, source);
  if (first) {
    modernize_keras_1(entry.class_name, config, where, source);
    for (const Renaming& option : kOptions) config.rename(option.from, option.to);
  } else {
    // Two short words that newer layers do not have.
    if (entry.class_name == "Dropout" || entry.class_name.starts_with("SpatialDropout")) {
      config.rename("p", "rate");
    }
    if (entry.class_name == "GaussianNoise") config.rename("sigma", "stddev");
    config.rename("border_mode", "padding");
  }
  if (!ordering.empty() && !config.has("dim_ordering") &&
      std::ranges::find(kSilentOrdering, entry.class_name) != kSilentOrdering.end()) {
    config.set("dim_ordering", ordering);
  }
  modernize_data_format(config);
  for (const std::string_view key : kGone) {
    // It says in which form the file has weights that are not shared.
    const bool says = key == "implementation" && entry.class_name.starts_with("LocallyConnected");
    if (!says) config.take(key);
  }
  modernize_regularizers(config);
  modernize_keras_2(entry.class_name, config, where, source);
  complete_defaults(entry.class_name, config, first || keras_2);
  if (first || keras_2) warn_of_hard_sigmoid(config, where, source);
  for (const std::string_view key : {"layer", "backward_layer"}) {
    if (Config* wrapped = config.find(key)) modernize_wrapped(*wrapped, source);
  }
}

}  // namespace plimsoll::formats
