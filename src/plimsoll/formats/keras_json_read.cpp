#include <array>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "formats/keras_json.h"
#include "formats/keras_json_impl.h"
#include "layers/names.h"

namespace plimsoll::formats {
namespace {

using layers::Config;
using layers::Model;
using layers::ModelKind;

constexpr std::array<std::string_view, 4> kShapeKeys = {"batch_shape", "batch_input_shape",
                                                        "input_shape", "input_dim"};

bool has_input(const LayerEntry& first) {
  if (first.class_name == "InputLayer") return true;
  for (const std::string_view key : kShapeKeys) {
    const Config* value = first.config.find(key);
    if (value != nullptr && !value->is_null()) return true;
  }
  return false;
}

// Names for the layers of files that give none (Keras 2.0), as Keras makes them.
class LayerNames {
 public:
  void add(const std::string& name) { taken_.insert(name); }
  std::string make(const std::string& class_name) {
    const std::string base = layers::snake_case(class_name);
    while (true) {
      const int64_t count = made_[base]++;
      std::string name = count == 0 ? base : base + "_" + std::to_string(count);
      if (taken_.insert(name).second) return name;
    }
  }

 private:
  std::set<std::string> taken_;
  std::map<std::string, int64_t> made_;
};

// A model that was built by calling it on data keeps the shape beside its layers.
void append_input(Model& model, const Config& config, const JsonScope& scope) {
  const Config* shape = config.find("build_input_shape");
  if (shape == nullptr || !shape->is_array()) {
    scope.refuse(model.name(), "the shape of the model's input", "none",
                 "Add keras.Input(shape) as its first layer and save it again.");
  }
  Config input;
  input.set("batch_shape", *shape);
  model.append("InputLayer", input);
}

Model read_sequential(const Config& config, const JsonScope& scope) {
  const Config* name = config.find("name");
  Model model(name != nullptr && name->is_string() ? name->as_string() : "sequential",
              ModelKind::kSequential);
  const Config* list = config.is_array() ? &config : config.find("layers");
  if (list == nullptr) {
    scope.refuse(model.name(), "a Sequential configuration with \"layers\"", excerpt(config));
  }
  const Config::Array& entries = scope.layer_list(*list);
  std::vector<LayerEntry> read;
  LayerNames names;
  for (size_t i = 0; i < entries.size(); ++i) {
    read.push_back(scope.read_entry(entries[i], i));
    names.add(read.back().name);
  }
  for (size_t i = 0; i < read.size(); ++i) {
    LayerEntry& entry = read[i];
    if (entry.name.empty()) entry.config.set("name", names.make(entry.class_name));
    with_context("while reading " + scope.origin(), [&] {
      if (i == 0 && !has_input(entry)) append_input(model, config, scope);
      const layers::LayerId id = model.append(entry.class_name, entry.config);
      scope.check_sizes(model, id, model.calls().back().output_types);
    });
  }
  return model;
}

void refuse_keras_1(const Config& json, const JsonScope& scope) {
  const Config* version = json.find("keras_version");
  if (version == nullptr || !version->is_string() || !version->as_string().starts_with("1.")) {
    return;
  }
  scope.refuse("", "a model of Keras 2 or 3", "one of Keras " + version->as_string(),
               "Its layers and arguments had other names: load it in Keras 2 and save it again.");
}

Model read_by_class(const Config& json, const JsonScope& scope) {
  if (json.is_string()) {
    scope.refuse("", "a JSON object", "JSON text inside a JSON string",
                 "It was dumped twice: write model.to_json() as it is.");
  }
  if (json.is_array()) return read_sequential(json, scope);
  const Config* class_name = json.find("class_name");
  if (class_name == nullptr) {
    if (json.find("layers") == nullptr) {
      scope.refuse("", "a Keras model with \"class_name\" and \"config\"", excerpt(json));
    }
    return json.find("input_layers") != nullptr ? read_functional(json, scope)
                                                : read_sequential(json, scope);
  }
  refuse_keras_1(json, scope);
  const std::string name = class_name->is_string() ? class_name->as_string() : excerpt(*class_name);
  const Config* config = json.find("config");
  if (config == nullptr) scope.refuse(name, "a \"config\"", excerpt(json));
  if (name == "Sequential") return read_sequential(*config, scope);
  const bool has_graph =
      config->find("layers") != nullptr && config->find("input_layers") != nullptr;
  if (name == "Functional" || (name == "Model" && has_graph)) {
    return read_functional(*config, scope);
  }
  scope.refuse("", "a Sequential or Functional model",
               "the class " + name + (has_graph ? "" : ", whose file holds no graph of layers"),
               "Its code is not in the file and would not be run: build the model as "
               "keras.Sequential([…]) or keras.Model(inputs, outputs) and save that.");
}

}  // namespace

Model read_architecture(const Config& json, const std::string& origin) {
  const JsonScope scope(origin);
  Model model = read_by_class(json, scope);
  with_context("while reading " + origin, [&] { model.check_complete(); });
  return model;
}

}  // namespace plimsoll::formats
