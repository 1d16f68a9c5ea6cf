#include "layers/model/call_arguments.h"

#include "base/format.h"
#include "base/suggest.h"

namespace plimsoll::layers {
namespace {

void collect(const Config& value, std::vector<size_t>& found) {
  if (const int64_t index = tensor_index(value); index >= 0) {
    found.push_back(static_cast<size_t>(index));
  } else if (value.is_array()) {
    for (const Config& item : value.as_array()) collect(item, found);
  }
}

}  // namespace

int64_t tensor_index(const Config& value) {
  const Config* index = value.is_object() ? value.find("tensor") : nullptr;
  return index != nullptr && index->is_int() ? index->as_int() : -1;
}

ValueId as_bool(LayerContext& context, ValueId mask) {
  if (context.type(mask).dtype == DType::kBool) return mask;
  return context.emit("cast", {mask}, {{"dtype", "bool"}});
}

GivenMask find_given_mask(const Config& arguments, size_t input_count) {
  const Config* kwargs = arguments.is_object() ? arguments.find("kwargs") : nullptr;
  const Config* mask = kwargs != nullptr ? kwargs->find("mask") : nullptr;
  if (mask == nullptr || input_count < 2 ||
      tensor_index(*mask) != static_cast<int64_t>(input_count) - 1) {
    return {false, arguments};
  }
  Config::Object others;
  for (const auto& [key, value] : kwargs->as_object()) {
    if (key != "mask") others.emplace_back(key, value);
  }
  const Config* args = arguments.find("args");
  const bool plain =
      others.empty() && args != nullptr && args->is_array() && args->as_array().size() == 1;
  if (plain) return {true, Config()};
  return {false, arguments};
}

Config tensor_argument(size_t input) {
  return Config::Object{{"tensor", static_cast<int64_t>(input)}};
}

CallArguments::CallArguments(const LayerContext& context, size_t input_count,
                             std::initializer_list<std::string_view> parameters) {
  const Config& record = context.arguments();
  if (record.is_null()) {
    size_t i = 0;
    for (std::string_view parameter : parameters) {
      if (i == input_count) break;
      given_.emplace_back(std::string(parameter), tensor_argument(i++));
    }
    return;
  }
  const Config* args = record.find("args");
  if (args != nullptr && args->is_array()) {
    const Config::Array& list = args->as_array();
    if (list.size() > parameters.size()) {
      context.refuse(fmt::format("at most {} arguments", parameters.size()),
                     std::to_string(list.size()), "");
    }
    for (size_t i = 0; i < list.size(); ++i) {
      given_.emplace_back(std::string(parameters.begin()[i]), list[i]);
    }
  }
  const Config* kwargs = record.find("kwargs");
  if (kwargs == nullptr || !kwargs->is_object()) return;
  for (const auto& [key, value] : kwargs->as_object()) {
    if (value.is_null() || key == "training") continue;
    bool known = false;
    for (std::string_view parameter : parameters) known = known || parameter == key;
    if (!known) {
      const std::vector<std::string> names(parameters.begin(), parameters.end());
      context.refuse("an argument of the layer's call", key,
                     did_you_mean(key, names) + " Build the model without it and save it again.");
    }
    given_.emplace_back(key, value);
  }
}

const Config& CallArguments::get(std::string_view parameter) const {
  static const Config none;
  for (const auto& [name, value] : given_) {
    if (name == parameter) return value;
  }
  return none;
}

std::vector<size_t> CallArguments::tensors(std::string_view parameter) const {
  std::vector<size_t> found;
  collect(get(parameter), found);
  return found;
}

bool CallArguments::flag(std::string_view parameter, bool fallback) const {
  const Config& value = get(parameter);
  return value.is_bool() ? value.as_bool() : fallback;
}

}  // namespace plimsoll::layers
