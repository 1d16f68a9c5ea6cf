#include "formats/keras/keras_h5.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "formats/json_text.h"
#include "formats/keras/h5_optimizer.h"
#include "formats/keras/keras_compile.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_tree.h"
#include "formats/keras/legacy_weights.h"
#include "formats/keras/weight_groups.h"
#include "formats/self_test_file.h"
#include "formats/stored_tensor.h"

namespace plimsoll::formats {
namespace {

using layers::Config;
using layers::Model;

constexpr std::string_view kWeights = "model_weights";

// What a group of weights says of one layer.
struct StoredLayer {
  std::string name;
  std::vector<std::string> datasets;  // paths
};

std::string join(const std::string& base, const std::string& name) {
  return base.empty() ? name : base + "/" + name;
}

Writer writer_of(const codec::Hdf5Reader& file, const std::string& base) {
  Writer writer;
  for (const std::string& path : {std::string(), base}) {
    if (const auto version = file.text_attribute(path, "keras_version")) {
      if (!version->empty() && version->front() >= '0' && version->front() <= '9') {
        writer.keras_major = version->front() - '0';
      }
    }
    if (const auto backend = file.text_attribute(path, "backend")) writer.backend = *backend;
  }
  return writer;
}

std::vector<StoredLayer> stored_layers(const codec::Hdf5Reader& file, const std::string& base) {
  const auto names = file.texts_attribute(base, "layer_names");
  if (!names) {
    throw Error(ErrorKind::kModel,
                file.name() + ": expected weights of Keras with \"layer_names\", received " +
                    "none. Save them with model.save_weights('model.weights.h5').");
  }
  std::vector<StoredLayer> layers;
  for (const std::string& name : *names) {
    const std::string group = join(base, name);
    if (!file.is_group(group)) {
      throw Error(ErrorKind::kModel, file.name() + ": [" + name +
                                         "] expected a group of its weights, received none. " +
                                         "The file is damaged.");
    }
    StoredLayer layer{name, {}};
    if (const auto weights = file.texts_attribute(group, "weight_names")) {
      for (const std::string& weight : *weights) layer.datasets.push_back(join(group, weight));
    }
    if (!layer.datasets.empty()) layers.push_back(std::move(layer));
  }
  return layers;
}

// Pairs of a model's layer and a file's, both with weights: by name, or one by one where the names
// are others and there are as many.
class LayerMatcher {
 public:
  LayerMatcher(const codec::Hdf5Reader& file, std::vector<LayerWeights> wanted,
               std::vector<StoredLayer> stored)
      : file_(file), stored_(std::move(stored)) {
    for (LayerWeights& layer : wanted) {
      if (!layer.weights.empty()) wanted_.push_back(std::move(layer));
    }
  }

  std::vector<StoredTensor> match(const Writer& writer) const {
    std::map<std::string, const StoredLayer*> by_name;
    for (const StoredLayer& layer : stored_) by_name[layer.name] = &layer;
    if (by_name.size() != stored_.size()) refuse("a name of its own for each layer", "one twice");
    if (wanted_.size() != stored_.size()) {
      refuse(fmt::format("{} layers with weights", wanted_.size()), std::to_string(stored_.size()));
    }
    bool named = true;
    for (const LayerWeights& layer : wanted_) named = named && by_name.contains(layer.name);
    std::vector<StoredTensor> tensors;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const StoredLayer& layer = named ? *by_name.at(wanted_[i].name) : stored_[i];
      for (StoredTensor& tensor : match_layer(file_, wanted_[i], layer.datasets, writer)) {
        check_stored(file_, tensor);
        tensors.push_back(std::move(tensor));
      }
    }
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const {
    throw Error(ErrorKind::kModel, file_.name() + ": expected " + expected + ", received " +
                                       received + ". The weights belong to another model.");
  }

  const codec::Hdf5Reader& file_;
  std::vector<LayerWeights> wanted_;
  std::vector<StoredLayer> stored_;
};

Config read_json_attribute(const codec::Hdf5Reader& file, std::string_view name) {
  const auto text = file.text_attribute("", name);
  if (!text) return {};
  return parse_json(*text, file.name() + " (" + std::string(name) + ")");
}

// training_config in the words of compile_config.
Config compile_config_of(const Config& training) {
  if (!training.is_object()) return {};
  Config compile{Config::Object{}};
  for (const auto& [key, value] : training.as_object()) {
    if (key == "sample_weight_mode") continue;
    compile.set(key == "optimizer_config" ? "optimizer" : key, value);
  }
  return compile;
}

}  // namespace

bool is_whole_h5(const codec::Hdf5Reader& file) {
  return file.attribute("", "model_config").has_value();
}

bool is_h5_weights(const codec::Hdf5Reader& file) {
  return file.texts_attribute("", "layer_names").has_value() ||
         (file.is_group(kWeights) && file.texts_attribute(kWeights, "layer_names").has_value());
}

Config read_h5_config(const codec::Hdf5Reader& file) {
  return read_json_attribute(file, "model_config");
}

LoadedModel load_keras_h5(const std::shared_ptr<const codec::FileReader>& file,
                          const LoadOptions& options) {
  codec::Hdf5Reader reader(file);
  const Config config = read_h5_config(reader);
  LoadedModel loaded{read_architecture(config, reader.name(), options.input_shapes), std::nullopt,
                     nullptr, nullptr};
  const Config training = compile_config_of(read_json_attribute(reader, "training_config"));
  loaded.compile = read_compile(training, loaded.model, reader.name());
  if (const auto text = reader.text_attribute("", kBatchNormKey)) {
    set_batch_norm(*text, reader.name(), loaded.compile);
  }
  if (!options.weights.empty()) return loaded;
  if (reader.is_group(kSelfTestGroup)) {
    loaded.self_test = open_self_test(codec::Hdf5Reader(file), kSelfTestGroup);
  }
  loaded.weights = open_h5_weights(std::move(reader), loaded.model, loaded.compile);
  return loaded;
}

std::unique_ptr<TensorSource> open_h5_weights(
    codec::Hdf5Reader file, const Model& model,
    const std::optional<layers::CompileOptions>& compile) {
  const std::string base = file.is_group(kWeights) ? std::string(kWeights) : "";
  const Writer writer = writer_of(file, base);
  const layers::ModelTree tree = keras_tree(model);
  std::vector<LayerWeights> wanted =
      layer_weights(model, tree, ListOrder::kFile, writer.keras_major);
  const LayerMatcher matcher(file, wanted, stored_layers(file, base));
  std::vector<StoredTensor> tensors = matcher.match(writer);
  for (StoredTensor& tensor : find_h5_optimizer(file, model, tree, compile)) {
    tensors.push_back(std::move(tensor));
  }
  return make_stored_source(std::move(file), std::move(tensors));
}

}  // namespace plimsoll::formats
