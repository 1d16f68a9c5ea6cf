#include "layers/config/option_reader.h"

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"

namespace plimsoll::layers {
namespace {

// A bound that nobody has reached is left out: it is far away.
std::string range_text(double least, double most, const Config& received) {
  const bool passed = received.is_number() && received.as_double() > most;
  if (most >= 1e30 && !passed) return "a number of at least " + Config(least).to_json();
  return "a number from " + Config(least).to_json() + " to " + Config(most).to_json();
}

}  // namespace

const Config* OptionReader::take(const std::string& key) {
  read_.insert(key);
  for (const auto& [name, value] : arguments_) {
    if (name == key) return &value;
  }
  return nullptr;
}

void OptionReader::refuse(const std::string& key, const std::string& expected,
                          const Config& received, const std::string& next_step) const {
  std::string message =
      what_ + ", " + key + ": expected " + expected + ", received " + received.to_json() + ".";
  if (!next_step.empty()) message += " " + next_step;
  throw Error(ErrorKind::kModel, message);
}

void OptionReader::describe(const std::string& key, const Config& fallback) {
  if (options_ == nullptr) return;
  for (const Option& known : *options_) {
    if (known.name == key) return;
  }
  options_->push_back({key, fallback});
}

std::optional<double> OptionReader::optional_number(const std::string& key, double least,
                                                    double most) {
  describe(key, Config());
  const Config* value = take(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_number() || !(value->as_double() >= least && value->as_double() <= most)) {
    refuse(key, range_text(least, most, *value), *value);
  }
  return value->as_double();
}

double OptionReader::number(const std::string& key, double fallback, double least, double most) {
  describe(key, fallback);
  return optional_number(key, least, most).value_or(fallback);
}

std::vector<double> OptionReader::numbers(const std::string& key, double least, double most) {
  describe(key, Config());
  const Config* value = take(key);
  if (value == nullptr || value->is_null()) return {};
  const Config* array = value->is_object() ? value->find("config") : nullptr;
  const Config* inner = array != nullptr && array->is_object() ? array->find("value") : nullptr;
  const Config& given = inner != nullptr ? *inner : *value;
  const auto read = [&](const Config& item) {
    if (!item.is_number() || !(item.as_double() >= least && item.as_double() <= most)) {
      refuse(key, range_text(least, most, item) + ", or a list of such", item);
    }
    return item.as_double();
  };
  if (!given.is_array()) return {read(given)};
  constexpr size_t kMost = 100'000;
  if (given.as_array().size() > kMost) {
    refuse(key, fmt::format("at most {} numbers", kMost), Config(std::ssize(given.as_array())),
           "Give fewer.");
  }
  std::vector<double> list;
  for (const Config& item : given.as_array()) list.push_back(read(item));
  return list;
}

std::vector<std::string> OptionReader::texts(const std::string& key) {
  describe(key, Config());
  const Config* value = take(key);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_array()) refuse(key, "a list of texts", *value);
  std::vector<std::string> list;
  for (const Config& item : value->as_array()) {
    if (!item.is_string()) refuse(key, "a list of texts", item);
    list.push_back(item.as_string());
  }
  return list;
}

bool OptionReader::flag(const std::string& key, bool fallback) {
  describe(key, fallback);
  const Config* value = take(key);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_bool()) refuse(key, "true or false", *value);
  return value->as_bool();
}

std::string OptionReader::text(const std::string& key, const std::string& fallback) {
  describe(key, fallback.empty() ? Config() : Config(fallback));
  const Config* value = take(key);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_string()) refuse(key, "a word", *value);
  return value->as_string();
}

bool OptionReader::is_null(const std::string& key) const { return json(key) == "null"; }

std::string OptionReader::json(const std::string& key) const {
  for (const auto& [name, value] : arguments_) {
    if (name == key) return value.to_json();
  }
  return "";
}

void OptionReader::ignore(const std::string& key) { take(key); }

void OptionReader::refuse_unless_empty(const std::string& key, const std::string& next_step) {
  const Config* value = take(key);
  if (value == nullptr || value->is_null()) return;
  if (value->is_bool() && !value->as_bool()) return;
  refuse(key, "null", *value, next_step);
}

void OptionReader::finish() const {
  for (const auto& [key, value] : arguments_) {
    if (read_.contains(key)) continue;
    const std::vector<std::string> known(read_.begin(), read_.end());
    std::string hint = did_you_mean(key, known);
    if (!hint.empty()) hint.erase(0, 1);
    refuse(key, "no such option", value, hint);
  }
}

}  // namespace plimsoll::layers
