#include "layers/kinds/activations.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/suggest.h"
#include "layers/config/names.h"
#include "layers/kinds/softmax.h"
#include "ops/activation_kinds.h"

namespace plimsoll::layers {
namespace {

// Activations that look at a whole row: operators of their own.
constexpr std::array<std::string_view, 4> kRowActivations = {"softmax", "log_softmax", "glu",
                                                             "sparsemax"};

std::string canonical(const std::string& name) {
  if (name == "swish") return "silu";
  if (name == "hard_swish") return "hard_silu";
  return name;
}

// Layers without weights that Keras calls as activations of others.
constexpr std::array<std::string_view, 5> kActivationLayers = {"Activation", "ELU", "LeakyReLU",
                                                               "ReLU", "Softmax"};

// Null where `value` is no layer.
std::shared_ptr<const Layer> layer_of(const Config& value) {
  const Config* class_name = value.is_object() ? value.find("class_name") : nullptr;
  const Config* config = value.is_object() ? value.find("config") : nullptr;
  if (class_name == nullptr || !class_name->is_string() || config == nullptr ||
      !config->is_object()) {
    return nullptr;
  }
  const std::string& name = class_name->as_string();
  if (std::ranges::find(kActivationLayers, name) == kActivationLayers.end()) {
    throw Error(ErrorKind::kModel,
                "expected an activation, or one of the layers Activation, ELU, LeakyReLU, ReLU and "
                "Softmax, received " +
                    name + ". Put it after this one as a layer of its own.");
  }
  Config named = *config;
  if (named.find("name") == nullptr) named.set("name", snake_case(name));
  return make_layer(name, named);
}

bool is_row_activation(std::string_view name) {
  for (std::string_view row : kRowActivations) {
    if (row == name) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> activation_key_names() {
  std::vector<std::string> names;
  for (std::string& name : ops::activation_names()) {
    if (name != "threshold") names.push_back(std::move(name));  // takes arguments
  }
  names.insert(names.end(), kRowActivations.begin(), kRowActivations.end());
  names.push_back("swish");
  names.push_back("hard_swish");
  return names;
}

Activation Activation::parse(const Config& value) {
  if (value.is_null()) return Activation("linear");
  if (std::shared_ptr<const Layer> layer = layer_of(value)) return Activation(std::move(layer));
  const Config* name = &value;
  if (value.is_object()) {
    // {"class_name": "function", "config": "relu"} of older files
    const Config* class_name = value.find("class_name");
    const Config* config = value.find("config");
    if (class_name != nullptr && class_name->is_string() && class_name->as_string() == "function" &&
        config != nullptr) {
      name = config;
    }
  }
  if (!name->is_string()) {
    throw Error(ErrorKind::kModel, "expected the name of an activation, received " +
                                       value.to_json() +
                                       ". Put a layer of its own after this one.");
  }
  const std::vector<std::string> known = activation_key_names();
  for (const std::string& candidate : known) {
    if (candidate == name->as_string()) return Activation(canonical(candidate));
  }
  throw Error(ErrorKind::kModel, "expected the name of an activation, received \"" +
                                     name->as_string() + "\"." +
                                     did_you_mean(name->as_string(), known));
}

bool Activation::along_last() const {
  return layer_ != nullptr ? !layer_->elementwise() : is_row_activation(name_);
}

bool Activation::penalizes_activity() const {
  return layer_ != nullptr && layer_->penalizes_activity();
}

Config Activation::config() const {
  if (layer_ == nullptr) return name_;
  return Config::Object{{"module", "keras.layers"},
                        {"class_name", layer_->class_name()},
                        {"config", layer_->config()},
                        {"registered_name", Config()}};
}

ValueId Activation::apply(LayerContext& context, ValueId x) const {
  if (layer_ != nullptr) {
    return context.call(*layer_, "", std::span(&x, 1), {}, Config()).outputs[0];
  }
  if (name_ == "linear") return x;
  if (name_ == "sparsemax") return sparsemax_along(context, x, -1);
  if (is_row_activation(name_)) {
    const ValueId y = context.emit(name_, {x}, {{"axis", -1}});
    if (name_ == "softmax") context.remember_logits(y, x, Probabilities::kSoftmax);
    return y;
  }
  const ValueId y = context.emit("activation", {x}, {{"kind", name_}});
  if (name_ == "sigmoid") context.remember_logits(y, x, Probabilities::kSigmoid);
  return y;
}

Activation read_activation_key(ConfigReader& reader) {
  const Config given = reader.value("activation", Config());
  try {
    Activation activation = Activation::parse(given);
    reader.complete("activation", activation.config());
    return activation;
  } catch (const Error& error) {
    throw Error(ErrorKind::kModel, reader.where("activation") + error.message());
  }
}

}  // namespace plimsoll::layers
