#include "layers/config/config_reader.h"

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"

namespace plimsoll::layers {
namespace {

// Keys of a first layer that say what a model's input is; Model reads them.
constexpr std::string_view kInputKeys[] = {"batch_input_shape", "batch_shape", "input_shape",
                                           "input_dim",         "input_dtype", "batch_size",
                                           "input_length"};

bool is_input_key(std::string_view key) {
  for (std::string_view known : kInputKeys) {
    if (known == key) return true;
  }
  return false;
}

Config policy_config(std::string_view name) {
  return Config::Object{{"module", "keras"},
                        {"class_name", "DTypePolicy"},
                        {"config", Config::Object{{"name", std::string(name)}}},
                        {"registered_name", Config()}};
}

}  // namespace

ConfigReader::ConfigReader(std::string_view class_name, const Config& given)
    : class_name_(class_name), given_(given) {
  const Config* name = given.find("name");
  layer_ = name != nullptr && name->is_string() ? name->as_string() : class_name_;
  if (!given.is_object() && !given.is_null()) {
    refuse("config", "an object", given.to_json());
  }
}

std::string ConfigReader::where(std::string_view key) const {
  return "[" + layer_ + "] " + std::string(key) + ": ";
}

void ConfigReader::refuse(std::string_view key, const std::string& expected,
                          const std::string& received, std::string_view next_step) const {
  std::string message = where(key) + "expected " + expected + ", received " + received + ".";
  if (!next_step.empty()) message += " " + std::string(next_step);
  throw Error(ErrorKind::kModel, message);
}

const Config* ConfigReader::take(std::string_view key) {
  read_.insert(std::string(key));
  return given_.find(key);
}

NamedConfig ConfigReader::named(std::string_view key, const std::string& expected) {
  const Config object = value(key, Config());
  const Config* name = object.is_object() ? object.find("class_name") : nullptr;
  const Config* config = object.is_object() ? object.find("config") : nullptr;
  if (name == nullptr || !name->is_string() || config == nullptr) {
    refuse(key, expected, object.to_json());
  }
  return {name->as_string(), *config};
}

void ConfigReader::complete(std::string_view key, Config value) {
  for (auto& [name, old] : completed_) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  completed_.emplace_back(std::string(key), std::move(value));
}

Config ConfigReader::value(std::string_view key, const Config& fallback) {
  const Config* given = take(key);
  const Config& result = given == nullptr ? fallback : *given;
  complete(key, result);
  return result;
}

Config ConfigReader::legacy(std::string_view key) {
  const Config* given = take(key);
  return given == nullptr ? Config() : *given;
}

std::string ConfigReader::text(std::string_view key) {
  const Config* given = take(key);
  if (given == nullptr || !given->is_string()) {
    refuse(key, "a string", given == nullptr ? "none" : given->to_json());
  }
  complete(key, *given);
  return given->as_string();
}

std::string ConfigReader::text(std::string_view key, std::string_view fallback) {
  if (given_.find(key) != nullptr) return text(key);
  complete(key, std::string(fallback));
  return std::string(fallback);
}

std::string ConfigReader::choice(std::string_view key, std::string_view fallback,
                                 std::initializer_list<std::string_view> words) {
  const std::string word = text(key, fallback);
  std::string known;
  for (std::string_view candidate : words) {
    if (candidate == word) return word;
    known += (known.empty() ? "\"" : " or \"") + std::string(candidate) + "\"";
  }
  std::string hint = did_you_mean(word, words);
  if (!hint.empty()) hint.erase(0, 1);
  refuse(key, known, "\"" + word + "\"", hint);
}

bool ConfigReader::flag(std::string_view key, bool fallback) {
  const Config given = value(key, fallback);
  if (!given.is_bool()) refuse(key, "true or false", given.to_json());
  return given.as_bool();
}

int64_t ConfigReader::integer(std::string_view key, int64_t least) {
  const Config* given = take(key);
  const std::string expected = fmt::format("an integer of at least {}", least);
  if (given == nullptr) refuse(key, expected, "none");
  if (!given->is_number()) refuse(key, expected, given->to_json());
  int64_t result = 0;
  try {
    result = given->as_int();
  } catch (const Error&) {
    refuse(key, expected, given->to_json());
  }
  if (result < least) refuse(key, expected, given->to_json());
  complete(key, result);
  return result;
}

int64_t ConfigReader::integer(std::string_view key, int64_t fallback, int64_t least) {
  if (given_.find(key) != nullptr) return integer(key, least);
  complete(key, fallback);
  return fallback;
}

double ConfigReader::number(std::string_view key, double fallback) {
  const Config given = value(key, fallback);
  if (!given.is_number()) refuse(key, "a number", given.to_json());
  return given.as_double();
}

std::optional<double> ConfigReader::optional_number(std::string_view key) {
  const Config given = value(key, Config());
  if (given.is_null()) return std::nullopt;
  if (!given.is_number()) refuse(key, "a number or null", given.to_json());
  return given.as_double();
}

std::vector<int64_t> ConfigReader::sizes(std::string_view key, size_t count, int64_t least) {
  const Config* given = take(key);
  const std::string expected =
      fmt::format("{} of at least {}", count == 1 ? "one integer" : "one or two integers", least);
  if (given == nullptr) refuse(key, expected, "none");
  std::vector<int64_t> result;
  if (given->is_int()) {
    result.assign(count, given->as_int());
  } else if (given->is_array()) {
    for (const Config& item : given->as_array()) {
      if (!item.is_int()) refuse(key, expected, given->to_json());
      result.push_back(item.as_int());
    }
  }
  if (result.size() != count) refuse(key, expected, given->to_json());
  for (int64_t size : result) {
    if (size < least) refuse(key, expected, given->to_json());
  }
  complete(key, Config::Array(result.begin(), result.end()));
  return result;
}

std::vector<int64_t> ConfigReader::sizes(std::string_view key, const std::vector<int64_t>& fallback,
                                         int64_t least) {
  const Config* given = given_.find(key);
  if (given != nullptr && !given->is_null()) return sizes(key, fallback.size(), least);
  take(key);
  complete(key, Config::Array(fallback.begin(), fallback.end()));
  return fallback;
}

bool is_read_policy(std::string_view name) {
  return name == "float32" || name == kMixedBFloat16 || name == kMixedFloat16;
}

std::string ConfigReader::policy(std::string_view key) {
  const Config* given = take(key);
  std::string name = "float32";
  if (given != nullptr && given->is_string()) {
    name = given->as_string();
  } else if (given != nullptr && given->is_object()) {
    const Config* config = given->find("config");
    const Config* inner = config == nullptr ? nullptr : config->find("name");
    name = inner != nullptr && inner->is_string() ? inner->as_string() : given->to_json();
  } else if (given != nullptr && !given->is_null()) {
    name = given->to_json();
  }
  if (!is_read_policy(name)) {
    refuse(key, std::string(kReadPolicies), name, "Build the model with one of these policies.");
  }
  complete(key, policy_config(name));
  return name;
}

bool ConfigReader::channels_first() {
  const Config* given = given_.find("data_format");
  if (given == nullptr || given->is_null()) {
    take("data_format");
    complete("data_format", "channels_last");
    return false;
  }
  return choice("data_format", "channels_last", {"channels_last", "channels_first"}) ==
         "channels_first";
}

void ConfigReader::refuse_unless_empty(std::string_view key, std::string_view next_step) {
  const Config* given = take(key);
  if (given == nullptr) return;
  const bool empty = given->is_null() || (given->is_bool() && !given->as_bool());
  if (!empty) refuse(key, "none", given->to_json(), next_step);
  complete(key, *given);
}

Config ConfigReader::finish() {
  if (given_.is_object()) {
    for (const auto& [key, value] : given_.as_object()) {
      if (read_.contains(key) || is_input_key(key)) continue;
      if (!value.is_null()) {
        const std::vector<std::string> known(read_.begin(), read_.end());
        std::string hint = did_you_mean(key, known);
        if (!hint.empty()) hint.erase(0, 1);
        refuse(key, "no such option of " + class_name_, value.to_json(), hint);
      }
      complete(key, value);
    }
  }
  return completed_;
}

}  // namespace plimsoll::layers
