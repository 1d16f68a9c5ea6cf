#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "formats/json_text.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_json_impl.h"
#include "formats/keras/keras_operators.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::formats {
namespace {

using layers::Config;

constexpr size_t kExcerpt = 80;
constexpr int64_t kLargestNumber = int64_t{1} << 31;
// Elements of one sample of a value, or of a weight: 4 TiB of float32.
constexpr int64_t kMostElements = int64_t{1} << 40;

// Modules of layers that are Keras's own; a file of Keras 2 may give none.
constexpr std::array<std::string_view, 6> kKerasModules = {
    "keras.layers",        "keras.src.layers", "tf_keras.layers",
    "tf_keras.src.layers", "tensorflow.keras", "keras.engine"};

bool starts_with_module(std::string_view module, std::string_view prefix) {
  return module == prefix || (module.starts_with(prefix) && module[prefix.size()] == '.');
}

// False where the product passes the bound (or a factor is negative).
bool product_within(const std::vector<int64_t>& factors, int64_t bound) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor < 0) return false;
    if (factor != 0 && product > bound / factor) return false;
    product *= factor;
  }
  return true;
}

// Numbers that measure nothing.
bool is_any_number(std::string_view key) {
  return key == "shared_object_id" || key.find("seed") != std::string_view::npos;
}

// The name of a precision: a text, or a policy object of Keras 2 or 3.
std::string precision_of(const Config& dtype) {
  if (dtype.is_string()) return dtype.as_string();
  const Config* config = dtype.find("config");
  const Config* name = config == nullptr ? nullptr : config->find("name");
  return name != nullptr && name->is_string() ? name->as_string() : excerpt(dtype);
}

}  // namespace

std::string excerpt(const Config& value) {
  if (value.is_object()) {
    std::string keys;
    for (const auto& [key, item] : value.as_object()) {
      keys += (keys.empty() ? "\"" : ", \"") + key + "\"";
      if (keys.size() > kExcerpt) break;
    }
    return keys.empty() ? "an empty object" : "an object with " + keys.substr(0, kExcerpt);
  }
  if (value.is_array()) {
    return value.as_array().empty() ? "an empty list"
                                    : fmt::format("a list of {} values", value.as_array().size());
  }
  std::string text = print_json(value, 0);
  if (text.size() > kExcerpt) text = text.substr(0, kExcerpt) + "…";
  return text;
}

void JsonSource::refuse(std::string_view where, const std::string& expected,
                        const std::string& received, std::string_view next_step) const {
  std::string message = origin_ + ": ";
  if (!where.empty()) message += "[" + std::string(where) + "] ";
  message += "expected " + expected + ", received " + received + ".";
  if (!next_step.empty()) message += " " + std::string(next_step);
  throw Error(ErrorKind::kModel, message);
}

const Config::Array& JsonSource::layer_list(const Config& list) const {
  if (!list.is_array()) refuse("layers", "a list of layers", excerpt(list));
  const Config::Array& entries = list.as_array();
  if (static_cast<int64_t>(entries.size()) > kMaxLayers) {
    refuse("layers", fmt::format("at most {} layers", kMaxLayers), std::to_string(entries.size()));
  }
  return entries;
}

LayerEntry JsonSource::read_entry(const Config& entry, size_t position) const {
  const std::string place = fmt::format("layer {}", position);
  const Config* class_name = entry.find("class_name");
  const Config* config = entry.find("config");
  if (class_name == nullptr || !class_name->is_string()) {
    refuse(place, "an object with \"class_name\" and \"config\"", excerpt(entry));
  }
  LayerEntry read;
  read.class_name = class_name->as_string();
  const Config* module = entry.find("module");
  read.module = module != nullptr && module->is_string() ? module->as_string() : "keras.layers";
  const Config* name = entry.find("name");
  if (name == nullptr && config != nullptr) name = config->find("name");
  if (name != nullptr && name->is_string()) read.name = name->as_string();
  const std::string& where = read.name.empty() ? place : read.name;
  read.kind = check_origin_of_class(entry, read);
  if (read.kind == EntryKind::kModel) return read;
  if (config == nullptr || !config->is_object()) {
    refuse(where, "a configuration of " + read.class_name,
           config == nullptr ? "none" : excerpt(*config));
  }
  read.config = *config;
  if (!read.name.empty()) read.config.set("name", read.name);
  // Words and integers that are looked up measure nothing; the layer bounds its own options.
  if (layers::layer_traits(read.class_name).looks_up) return read;
  check_precision(read);
  check_numbers(read.config, "", where);
  return read;
}

EntryKind JsonSource::check_origin_of_class(const Config& entry, const LayerEntry& read) const {
  const std::string& where = read.name.empty() ? read.class_name : read.name;
  const Config* registered = entry.find("registered_name");
  const bool custom_name = registered != nullptr && registered->is_string() &&
                           registered->as_string().find('>') != std::string::npos;
  if (is_operator_module(read.module)) return EntryKind::kOperator;
  const std::string_view own = layers::layer_traits(read.class_name).module;
  const bool known = own.empty()
                         ? std::ranges::any_of(kKerasModules,
                                               [&](std::string_view prefix) {
                                                 return starts_with_module(read.module, prefix);
                                               })
                         : read.module == own;
  if (!custom_name && (read.class_name == "Sequential" || read.class_name == "Functional" ||
                       read.class_name == "Model")) {
    return EntryKind::kModel;
  }
  if (!known || custom_name) {
    refuse(where, "a layer of Keras",
           "the custom layer " + (custom_name ? registered->as_string() : read.class_name) +
               " of module " + read.module,
           "Its code is not in the file and would not be run: replace it by layers of Keras.");
  }
  return EntryKind::kLayer;
}

void JsonSource::check_precision(const LayerEntry& read) const {
  const Config* dtype = read.config.find("dtype");
  if (dtype == nullptr || dtype->is_null() || read.class_name == layers::kInputLayer) return;
  const std::string precision = precision_of(*dtype);
  // What an operator makes may be of other types, and what a layer does of which nothing can be
  // trained: it says which.
  const bool makes =
      read.kind == EntryKind::kOperator || !layers::layer_traits(read.class_name).says_trainable;
  const bool made = makes && (precision == "bool" || precision.find("int") != std::string::npos);
  if (made) return;
  if (layers::is_read_policy(precision)) return;
  refuse(read.name.empty() ? read.class_name : read.name, std::string(layers::kReadPolicies),
         precision,
         "Save it in float32: keras.config.set_dtype_policy('float32'), build the model again, "
         "then new.set_weights(old.get_weights()).");
}

void JsonSource::check_numbers(const Config& value, std::string_view key,
                               const std::string& where) const {
  if (value.is_object()) {
    for (const auto& [name, item] : value.as_object()) check_numbers(item, name, where);
  } else if (value.is_array()) {
    std::vector<int64_t> integers;
    for (const Config& item : value.as_array()) {
      check_numbers(item, key, where);
      if (item.is_int()) integers.push_back(std::abs(item.as_int()));
    }
    if (!product_within(integers, kMostElements)) {
      refuse(where, std::string(key) + " of at most 2^40 elements", excerpt(value));
    }
  } else if (value.is_int() && !is_any_number(key) &&
             (value.as_int() > kLargestNumber || value.as_int() < -kLargestNumber)) {
    refuse(where, std::string(key) + " of at most 2^31", excerpt(value));
  }
}

void JsonSource::check_sizes(const layers::Model& model, layers::LayerId layer,
                             const std::vector<layers::ValueType>& outputs) const {
  const std::string& where = model.layer(layer).name();
  const std::string expected = " of at most 2^40 elements";
  for (const layers::ValueType& type : outputs) {
    if (!product_within(type.shape.at(1), kMostElements)) {
      refuse(where, "an output" + expected, to_string(type.shape));
    }
  }
  for (const layers::Weight& weight : model.weights(layer)) {
    if (!product_within(weight.shape, kMostElements)) {
      refuse(where, "a weight" + expected,
             fmt::format("{} {}", weight.name, to_string(fixed_shape(weight.shape))));
    }
  }
}

}  // namespace plimsoll::formats
