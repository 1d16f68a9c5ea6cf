// docs/reference/supported-layers.md is written from the registries; this test holds it against
// them. PLIMSOLL_UPDATE_GOLDEN=1 writes it anew; review the difference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "layers/config/constraints.h"
#include "layers/config/initializers.h"
#include "layers/config/option_reader.h"
#include "layers/config/regularizers.h"
#include "layers/kinds/activations.h"
#include "layers/kinds/operation.h"
#include "layers/model/layer.h"
#include "layers/training/losses.h"
#include "layers/training/metrics.h"
#include "layers/training/optimizers.h"
#include "unit/layers/support.h"

namespace plimsoll::layers {
namespace {

using testing::Array;
using testing::Object;

// Something that a key can be set to where a layer does not do without it.
Config example_of(const std::string& key) {
  const Object layer = {{"class_name", "Dense"},
                        {"config", Object{{"name", "inner"}, {"units", 1}}}};
  const Object recurrent = {{"class_name", "LSTM"},
                            {"config", Object{{"name", "inner"}, {"units", 1}}}};
  const std::vector<std::pair<std::string_view, Config>> examples = {
      {"batch_shape", Array{Config(), 1}},
      {"dims", Array{1}},
      {"target_shape", Array{1}},
      {"axes", 1},
      {"layer", layer},
      {"operation", "Relu"},
      {"equation", "ab,bc->ac"},
      {"bin_boundaries", Array{0.5}},
      {"cell",
       Object{{"class_name", "LSTMCell"}, {"config", Object{{"name", "inner"}, {"units", 1}}}}},
      {"layer.recurrent", recurrent},
      {"pool_size", 2},
      {"rate", 0.5},
      {"drop_path_rate", 0.5},
  };
  for (const auto& [name, value] : examples) {
    if (name == key) return value;
  }
  return 1;  // sizes and counts
}

// The layer's configuration with as little said as possible, and the keys that had to be said.
struct Described {
  Config::Object config{};
  std::set<std::string> required{};
};

Described describe(const std::string& class_name) {
  Described result;
  Object given = {{"name", "x"}};
  for (;;) {
    try {
      const std::shared_ptr<const Layer> layer = make_layer(class_name, given);
      for (const auto& [key, value] : layer->config().as_object()) {
        if (key != "name" && key != "trainable" && key != "dtype") {
          result.config.emplace_back(key, value);
        }
      }
      return result;
    } catch (const Error& error) {
      // "[x] units: expected an integer of at least 1, received none."
      const std::string& message = error.message();
      const size_t begin = message.find("[x] ") + 4;
      const std::string key = message.substr(begin, message.find(':', begin) - begin);
      const bool again = !result.required.insert(key).second;
      if (again && class_name == "Bidirectional" && key == "layer") {
        given.back().second = example_of("layer.recurrent");
        continue;
      }
      if (again) {
        ADD_FAILURE() << class_name
                      << " has a required option without an example here: " << message;
        return result;
      }
      given.emplace_back(key, example_of(key));
    }
  }
}

std::string code(const std::string& text) { return "`" + text + "`"; }

// A default as a reader of Keras would write it.
std::string short_value(const Config& value) {
  if (value.is_object() && value.find("class_name") != nullptr) {
    return value.at("class_name").as_string();
  }
  return value.to_json();
}

std::string describe_row(const std::string& class_name) {
  const Described described = describe(class_name);
  std::string options;
  for (const auto& [key, value] : described.config) {
    if (!options.empty()) options += ", ";
    options += code(described.required.contains(key) ? key : key + "=" + short_value(value));
  }
  return "| " + class_name + " | " + options + " |\n";
}

// `needed` has those that must be given, unless there is a default all the same.
std::string option_list(const std::vector<Option>& options, const Object& needed = {}) {
  std::string text;
  for (const Option& option : options) {
    if (option.name == "name" || option.name == "lr") continue;
    if (!text.empty()) text += ", ";
    const bool bare =
        option.fallback.is_null() &&
        std::ranges::any_of(needed, [&](const auto& one) { return one.first == option.name; });
    text += code(bare ? option.name : option.name + "=" + option.fallback.to_json());
  }
  return text;
}

std::string arguments_of(const Config& complete) {
  std::string text;
  for (const auto& [key, value] : complete.at("config").as_object()) {
    if (!text.empty()) text += ", ";
    text += code(key + "=" + value.to_json());
  }
  return text;
}

std::string sentence(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " · ") + name;
  return text;
}

ValueType steps_type() {
  return {DType::kFloat32, Shape({Dim::batch(), Dim::constant(4), Dim::constant(3)})};
}
ValueType output_type() { return {DType::kFloat32, Shape({Dim::batch(), Dim::constant(3)})}; }

std::string layers_text() {
  std::string text =
      "## Layers\n\nAn option without a default must be given. All layers take `name`, "
      "`trainable`, "
      "`dtype` (float32)\nand `activity_regularizer`.\n`data_format=\"channels_first\"` is "
      "computed channels last; a value "
      "is transposed once where such layers\nbegin, and again where they end.\n\n| layer | options "
      "|\n|---|---|\n";
  for (const std::string& name : layer_class_names()) text += describe_row(name);
  text +=
      "\nLayers that prepare images take images of bytes, too. Random ones change the images of "
      "training, by draws\nfrom the seed of the run, and leave all others alone; so does "
      "RandomCrop, as in Keras: what stands after it\nmust take both sizes. Gradients pass through "
      "Resizing, CenterCrop, RandomCrop, RandomFlip, RandomContrast,\nRandomBrightness and "
      "RandomInvert; the others stand in front of all layers that are trained.\nMixUp and CutMix "
      "mix "
      "each image with one of its batch, and labels not; Equalization counts the numbers of all\n"
      "images of a batch; RandAugment chooses its layers once for a batch.\n\n"
      "With `stateful=True` LSTM, GRU and SimpleRNN, also in Bidirectional, go on from batch to "
      "batch "
      "where the model's\nInput says the size of all batches. States begin at 0 with each command, "
      "and "
      "stand in no file.\n";
  text += "\n## Layers that are refused\n\n| layer | why | instead |\n|---|---|---|\n";
  for (const RefusedLayer& refused : refused_layers()) {
    text += "| " + std::string(refused.class_name) + " | " + std::string(refused.why) + " | " +
            std::string(refused.instead) + " |\n";
  }
  text += "\nSo is everything that is not Keras's own.\n";
  return text + "\n## Operators of keras.ops between layers\n\n" + sentence(operation_names()) +
         "\n\nSamples are not mixed: axes come after the batch. View takes integers alone: "
         "Plimsoll computes "
         "in float32\nwhat has another type of real numbers in Keras, and what operators compute "
         "of "
         "integers. Eigh and SVD give\nvectors Keras's signs, except where the rounding of float32 "
         "decides them there, as some of symmetric\nmatrices of 16 rows and more.\n";
}

std::string losses_text() {
  std::string text = "\n## Losses\n\n| loss | options |\n|---|---|\n";
  for (const std::string& name : loss_class_names()) {
    std::vector<Option> options;
    const Config loss(Object{{"class_name", name}, {"config", Object{}}});
    read_loss(loss, names_label_sequences(loss) ? steps_type() : output_type(), &options);
    text += "| " + name + " | " + option_list(options) + " |\n";
  }
  return text;
}

// What a metric cannot be without.
Object needed_by(const std::string& metric) {
  if (!metric.ends_with("IoU") || metric == "BinaryIoU") return {};
  Object needed = {{"num_classes", 3}};
  if (!metric.starts_with("OneHot")) needed.emplace_back("sparse_y_true", false);
  if (!metric.ends_with("MeanIoU")) {
    needed.emplace_back("target_class_ids", Config::Array{Config(1)});
  }
  if (!metric.starts_with("OneHot")) needed.emplace_back("sparse_y_pred", false);
  return needed;
}

std::string metrics_text() {
  std::string text =
      "\n## Metrics\n\n`accuracy` is the one that fits output and loss. Over an epoch, `metrics` "
      "are unweighted;\n`weighted_metrics` are weighted by sample weights. A function of "
      "keras.losses is a metric too, alone or in\na MeanMetricWrapper. What Keras tells as an "
      "array "
      "is told as `name[0]`, `name[1]`, …; in Python it is an\narray.\n\n| metric | options "
      "|\n|---|---|\n";
  for (const std::string& name : metric_class_names()) {
    const Loss loss = read_loss(metric_is_sparse(name) ? "sparse_categorical_crossentropy" : "mse",
                                output_type());
    std::vector<Option> options;
    read_metric(Object{{"class_name", name}, {"config", needed_by(name)}}, loss, output_type(),
                &options);
    text += "| " + name + " | " + option_list(options, needed_by(name)) + " |\n";
  }
  return text;
}

std::string optimizers_text() {
  std::string text = "\n## Optimizers\n\n| optimizer | options |\n|---|---|\n";
  for (const std::string& name : optimizer_class_names()) {
    std::vector<Option> options;
    Object arguments;
    if (is_loss_scale(name)) arguments.emplace_back("inner_optimizer", "sgd");
    read_optimizer(Object{{"class_name", name}, {"config", std::move(arguments)}}, &options);
    text += "| " + name + " | " + option_list(options) + " |\n";
  }
  return text;
}

template <typename Complete>
std::string parts_text(const std::string& title, const std::vector<std::string>& names,
                       Complete complete) {
  std::string text = "\n## " + title + "s\n\n| " +
                     std::string(1, static_cast<char>(title[0] | 32)) + title.substr(1) +
                     " | arguments |\n|---|---|\n";
  for (const std::string& name : names) {
    text += "| " + name + " | " + arguments_of(complete(Config(name))) + " |\n";
  }
  return text;
}

std::string whole_text() {
  return "# Supported layers, losses, metrics and optimizers\n\nWritten from Plimsoll's registries "
         "by `tests/unit/layers/supported_layers_test.cpp`; do not edit. Names,\ndefaults and "
         "arithmetic are those of Keras 3; spellings of Keras 2 are read too.\n\n" +
         layers_text() + "\n## Activations\n\n" + sentence(activation_key_names()) + "\n" +
         losses_text() + metrics_text() + optimizers_text() +
         parts_text("Initializer", initializer_class_names(), complete_initializer) +
         parts_text("Regularizer", regularizer_class_names(), complete_regularizer) +
         parts_text("Constraint", constraint_class_names(), complete_constraint);
}

TEST(SupportedLayersTest, TheReferencePageIsUpToDate) {
  const std::string path = "../docs/reference/supported-layers.md";  // from tests/
  const std::string text = whole_text();
  if (std::getenv("PLIMSOLL_UPDATE_GOLDEN") != nullptr) write_text_file(path, text);
  EXPECT_EQ(read_text_file(path, 1 << 20), text)
      << "run the test with PLIMSOLL_UPDATE_GOLDEN=1 and commit the page";
}

}  // namespace
}  // namespace plimsoll::layers
