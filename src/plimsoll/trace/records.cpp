#include "trace/records.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
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
  Line& add(std::string_view key, Bytes value) { return add(key, value.count()); }
  Line& add(std::string_view key, std::string_view value) {
    begin(key);
    text_ += quoted(value);
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

std::string line_of(const RunEvent& event) {
  Line line;
  line.add("run", event.version).add("model", event.model).add("batch", event.batch);
  line.add("planned_arena_bytes", event.planned_arena);
  line.add("predicted_process_bytes", event.predicted_process);
  if (event.limit) line.add("limit_bytes", *event.limit);
  return line.add("kernel_set", event.kernel_set).add("block_set", event.block_set).finish();
}

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

std::string line_of(const MemoryEvent& event) {
  Line line;
  line.add("memory", event.step).add("process_bytes", event.process);
  return line.add("peak_bytes", event.peak).add("arena_bytes", event.arena).finish();
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
  Bytes bytes(const char* key) const { return Bytes(integer(key)); }
  double number(const char* key) const { return as_number(need(key), key); }
  double as_number(const Json& value, const std::string& key) const {
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) refuse(line_, key + " is no number");
    return value.get<double>();
  }
  std::string text(const char* key) const {
    const Json& value = need(key);
    if (!value.is_string()) refuse(line_, std::string(key) + " is no text");
    return value.get<std::string>();
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

Event parse_run(const Fields& fields, const Json& object, std::string_view line) {
  RunEvent event;
  event.version = fields.integer("run");
  if (event.version != kVersion) {
    refuse(line, fmt::format("version {}, where {} is known; a newer plimsoll wrote it",
                             event.version, kVersion));
  }
  event.model = fields.text("model");
  event.batch = fields.integer("batch");
  event.planned_arena = fields.bytes("planned_arena_bytes");
  event.predicted_process = fields.bytes("predicted_process_bytes");
  if (object.contains("limit_bytes")) event.limit = fields.bytes("limit_bytes");
  event.kernel_set = fields.text("kernel_set");
  event.block_set = fields.integer("block_set");
  return event;
}

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
  if (object.contains("run")) return parse_run(fields, object, line);
  if (object.contains("memory")) {
    return MemoryEvent{fields.integer("memory"), fields.bytes("process_bytes"),
                       fields.bytes("peak_bytes"), fields.bytes("arena_bytes")};
  }
  if (object.contains("epoch")) return parse_epoch(fields, object);
  if (object.contains("step")) return StepEvent{fields.integer("step"), fields.number("loss")};
  refuse(line, "no run, step, epoch or memory");
}

std::vector<Event> read_events(const std::string& path) {
  constexpr int64_t kMaxFileBytes = 1 << 30;
  const std::string text = read_text_file(path, kMaxFileBytes);
  std::vector<Event> events;
  std::string_view rest = text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;  // cut short
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.empty()) continue;
    with_context(fmt::format("in line {} of {}", number, path),
                 [&] { events.push_back(parse_line(line)); });
  }
  return events;
}

}  // namespace plimsoll::trace
