#include "trace/records.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::trace {
namespace {

using Json = nlohmann::ordered_json;

// Puts together one object, "key": value, in order.
class Line {
 public:
  Line& add(std::string_view key, int64_t value) {
    begin(key);
    text_ += std::to_string(value);
    return *this;
  }
  Line& add(std::string_view key, double value) {
    begin(key);
    if (!std::isfinite(value)) {
      text_ += "null";
      return *this;
    }
    std::array<char, 32> digits;
    const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    text_.append(digits.data(), result.ptr);
    return *this;
  }
  std::string finish() { return "{" + text_ + "}\n"; }

 private:
  static std::string quoted(std::string_view text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  void begin(std::string_view key) {
    if (!text_.empty()) text_ += ", ";
    text_ += quoted(key);
    text_ += ": ";
  }

  std::string text_;
};

std::string line_of(const StepEvent& event) {
  return Line().add("step", event.step).add("loss", event.loss).finish();
}

bool is_taken(std::string_view name) { return name == "epoch" || name == "seconds"; }

std::string line_of(const EpochEvent& event) {
  Line line;
  line.add("epoch", event.epoch);
  for (const auto& [name, value] : event.metrics) {
    line.add(is_taken(name) ? name + "_" : name, value);
  }
  return line.add("seconds", event.seconds).finish();
}

[[noreturn]] void refuse(std::string_view line, const std::string& why) {
  constexpr size_t kShown = 120;
  throw Error(ErrorKind::kData, "trace: expected a line of a run's log, received \"" +
                                    std::string(line.substr(0, kShown)) +
                                    (line.size() > kShown ? "…" : "") + "\" (" + why + ").");
}

// Fields of one parsed line.
class Fields {
 public:
  Fields(const Json& object, std::string_view line) : object_(object), line_(line) {}

  int64_t integer(const char* key) const {
    const Json& value = need(key);
    if (!value.is_number_integer()) refuse(line_, std::string(key) + " is no whole number");
    return value.get<int64_t>();
  }
  double number(const char* key) const { return as_number(need(key), key); }
  double as_number(const Json& value, const std::string& key) const {
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) refuse(line_, key + " is no number");
    return value.get<double>();
  }

 private:
  const Json& need(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse(line_, std::string(key) + " is missing");
    return *found;
  }

  const Json& object_;
  std::string_view line_;
};

Event parse_epoch(const Fields& fields, const Json& object) {
  EpochEvent event;
  event.epoch = fields.integer("epoch");
  for (const auto& [key, value] : object.items()) {
    if (is_taken(key)) continue;
    event.metrics.emplace_back(key, fields.as_number(value, key));
  }
  event.seconds = fields.number("seconds");
  return event;
}

}  // namespace

std::string to_line(const Event& event) {
  return std::visit([](const auto& kind) { return line_of(kind); }, event);
}

Event parse_line(std::string_view line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) refuse(line, "no JSON object");
  const Fields fields(object, line);
  if (object.contains("epoch")) return parse_epoch(fields, object);
  if (object.contains("step")) return StepEvent{fields.integer("step"), fields.number("loss")};
  refuse(line, "neither step nor epoch");
}

}  // namespace plimsoll::trace
