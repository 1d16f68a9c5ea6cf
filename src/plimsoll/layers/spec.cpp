#include "layers/spec.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace plimsoll::layers {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// The class of a name; throws where nothing is called so.
std::string find_class(std::string_view name, std::string_view what,
                       std::span<const KnownName> known, ErrorKind kind) {
  std::vector<std::string> names;
  for (const KnownName& entry : known) {
    if (lower(name) == lower(entry.class_name)) return std::string(entry.class_name);
    names.emplace_back(entry.class_name);
    for (const std::string& alias : words_of(entry.aliases)) {
      if (lower(name) == lower(alias)) return std::string(entry.class_name);
      names.push_back(alias);
    }
  }
  std::string list;
  for (const KnownName& entry : known) {
    const std::vector<std::string> aliases = words_of(entry.aliases);
    list += (list.empty() ? "" : ", ") +
            (aliases.empty() ? std::string(entry.class_name) : aliases.front());
  }
  throw Error(kind, std::string(what) + ": expected one of " + list + "; received \"" +
                        std::string(name) + "\"." + did_you_mean(name, names));
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Config parse_value(std::string_view text) {
  if (text == "true" || text == "True") return Config(true);
  if (text == "false" || text == "False") return Config(false);
  if (text == "none" || text == "None" || text == "null") return Config();
  int64_t integer = 0;
  const auto whole = std::from_chars(text.data(), text.data() + text.size(), integer);
  if (whole.ec == std::errc() && whole.ptr == text.data() + text.size()) return Config(integer);
  double number = 0;
  const auto real = std::from_chars(text.data(), text.data() + text.size(), number);
  if (real.ec == std::errc() && real.ptr == text.data() + text.size()) return Config(number);
  return Config(std::string(text));
}

}  // namespace

Spec read_spec(const Config& value, std::string_view what, std::span<const KnownName> known) {
  Spec spec;
  spec.config = Config(Config::Object{});
  if (value.is_string()) {
    spec.given = value.as_string();
  } else if (value.is_object() && value.find("class_name") != nullptr) {
    const Config& name = value.at("class_name");
    // Keras writes functions such as keras.losses.mean_squared_error as class "function".
    const bool function = name.is_string() && name.as_string() == "function";
    spec.given = function ? value.at("config").as_string() : name.as_string();
    // "Custom>Adam": the part behind is the registered name of a class that Keras knows.
    if (const size_t mark = spec.given.rfind('>'); mark != std::string::npos) {
      spec.given.erase(0, mark + 1);
    }
    const Config* config = value.find("config");
    if (!function && config != nullptr && config->is_object()) spec.config = *config;
  } else {
    throw Error(ErrorKind::kModel, std::string(what) +
                                       ": expected a name or a serialized object, "
                                       "received " +
                                       value.to_json());
  }
  spec.class_name = find_class(spec.given, what, known, ErrorKind::kModel);
  return spec;
}

Config parse_spec(std::string_view text, std::string_view what, std::span<const KnownName> known) {
  text = trim(text);
  const size_t open = text.find('(');
  const std::string_view name = trim(text.substr(0, open));
  Config::Object arguments;
  if (open != std::string_view::npos) {
    if (text.back() != ')') {
      throw Error(
          ErrorKind::kConfig,
          std::string(what) + ": expected a closing parenthesis, received " + std::string(text));
    }
    std::string_view rest = text.substr(open + 1, text.size() - open - 2);
    while (!trim(rest).empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view argument = trim(rest.substr(0, comma));
      const size_t equals = argument.find('=');
      if (equals == std::string_view::npos) {
        throw Error(ErrorKind::kConfig,
                    std::string(what) + ": expected name=value, received " + std::string(argument));
      }
      arguments.emplace_back(std::string(trim(argument.substr(0, equals))),
                             parse_value(trim(argument.substr(equals + 1))));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  const std::string class_name = find_class(name, what, known, ErrorKind::kConfig);
  if (arguments.empty()) return Config(std::string(name));
  return Config(
      Config::Object{{"class_name", Config(class_name)}, {"config", Config(std::move(arguments))}});
}

Config serialized(std::string_view module, std::string_view class_name, Config config) {
  return Config(Config::Object{{"module", Config(std::string(module))},
                               {"class_name", Config(std::string(class_name))},
                               {"config", std::move(config)},
                               {"registered_name", Config()}});
}

}  // namespace plimsoll::layers
