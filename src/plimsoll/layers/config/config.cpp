#include "layers/config/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::layers {
namespace {

[[noreturn]] void refuse_kind(std::string_view expected, const Config& received) {
  throw Error(ErrorKind::kModel,
              "expected " + std::string(expected) + ", received " + received.to_json());
}

void append_string(const std::string& value, std::string& text) {
  text += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      text += c;
    }
  }
  text += '"';
}

// The shortest text that reads back as the same double, always with a point or an exponent.
std::string number_text(double value) {
  if (!std::isfinite(value)) return "null";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

Config::Config(const Config& other) = default;
Config::Config(Config&& other) noexcept = default;
Config& Config::operator=(const Config& other) = default;
Config& Config::operator=(Config&& other) noexcept = default;
Config::~Config() = default;

bool Config::as_bool() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  refuse_kind("true or false", *this);
}

int64_t Config::as_int() const {
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return *value;
  const double* value = std::get_if<double>(&value_);
  if (value != nullptr && *value == std::floor(*value) && std::abs(*value) < 9e15) {
    return static_cast<int64_t>(*value);
  }
  refuse_kind("an integer", *this);
}

double Config::as_double() const {
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  if (const double* value = std::get_if<double>(&value_)) return *value;
  refuse_kind("a number", *this);
}

const std::string& Config::as_string() const {
  if (const std::string* value = std::get_if<std::string>(&value_)) return *value;
  refuse_kind("a text", *this);
}

const Config::Array& Config::as_array() const {
  if (const SharedArray* value = std::get_if<SharedArray>(&value_)) return **value;
  refuse_kind("a list", *this);
}

const Config::Object& Config::as_object() const {
  if (const SharedObject* value = std::get_if<SharedObject>(&value_)) return **value;
  refuse_kind("an object", *this);
}

const Config* Config::find(std::string_view key) const {
  const SharedObject* object = std::get_if<SharedObject>(&value_);
  if (object == nullptr) return nullptr;
  for (const auto& [name, value] : **object) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Config& Config::at(std::string_view key) const {
  if (const Config* value = find(key)) return *value;
  refuse_kind("an object with \"" + std::string(key) + "\"", *this);
}

void Config::set(std::string key, Config value) {
  if (is_null()) value_ = std::make_shared<Object>();
  SharedObject* shared = std::get_if<SharedObject>(&value_);
  if (shared == nullptr) refuse_kind("an object", *this);
  if (shared->use_count() > 1) *shared = std::make_shared<Object>(**shared);
  Object& object = **shared;
  for (auto& [name, old] : object) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  object.emplace_back(std::move(key), std::move(value));
}

bool operator==(const Config& a, const Config& b) {
  if (a.is_array() && b.is_array()) return a.as_array() == b.as_array();
  if (a.is_object() && b.is_object()) return a.as_object() == b.as_object();
  return a.value_ == b.value_;
}

std::string Config::to_json() const {
  std::string text;
  if (is_null()) {
    text = "null";
  } else if (is_bool()) {
    text = std::get<bool>(value_) ? "true" : "false";
  } else if (is_int()) {
    text = std::to_string(std::get<int64_t>(value_));
  } else if (is_number()) {
    text = number_text(std::get<double>(value_));
  } else if (is_string()) {
    append_string(std::get<std::string>(value_), text);
  } else if (is_array()) {
    for (const Config& item : as_array()) text += (text.empty() ? "" : ", ") + item.to_json();
    text = "[" + text + "]";
  } else {
    for (const auto& [name, value] : as_object()) {
      text += text.empty() ? "" : ", ";
      append_string(name, text);
      text += ": " + value.to_json();
    }
    text = "{" + text + "}";
  }
  return text;
}

bool says_nothing(const Config& value) {
  if (value.is_array()) return std::ranges::all_of(value.as_array(), says_nothing);
  if (value.is_object()) {
    return std::ranges::all_of(value.as_object(),
                               [](const auto& item) { return says_nothing(item.second); });
  }
  return value.is_null() || (value.is_bool() && !value.as_bool());
}

}  // namespace plimsoll::layers
