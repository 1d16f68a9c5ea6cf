#include "formats/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/format.h"

namespace plimsoll::formats {
namespace {

using layers::Config;

// Builds the value bottom up: one frame for each array or object that is open.
class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(const std::string& origin) : origin_(origin) {}

  bool null() override { return add(Config()); }
  bool boolean(bool value) override { return add(Config(value)); }
  bool number_integer(number_integer_t value) override { return add(Config(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= static_cast<number_unsigned_t>(INT64_MAX);
    return fits ? add(Config(static_cast<int64_t>(value)))
                : add(Config(static_cast<double>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(Config(value)); }
  bool string(string_t& value) override { return add(Config(std::move(value))); }
  bool binary(binary_t&) override { return false; }  // no JSON text has it

  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(string_t& name) override {
    frames_.back().key = std::move(name);
    if (static_cast<int64_t>(frames_.back().object.size()) >= kMaxJsonKeys) {
      refuse(fmt::format("an object of more than {} keys", kMaxJsonKeys));
    }
    return true;
  }
  bool end_object() override {
    check_keys(frames_.back().object);
    return close(Config(std::move(frames_.back().object)));
  }
  bool end_array() override { return close(Config(std::move(frames_.back().array))); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    std::string what = error.what();
    const size_t start = what.find("] ");  // after the library's own prefix
    if (start != std::string::npos) what.erase(0, start + 2);
    refuse(fmt::format("text that is no JSON at byte {} ({})", position, what));
  }

  Config take() { return std::move(result_); }

 private:
  struct Frame {
    bool is_object = false;
    Config::Array array;
    Config::Object object;
    std::string key;
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kModel,
                origin_ + ": expected a Keras configuration in JSON, received " + what + ".");
  }
  void count() {
    if (++count_ > kMaxJsonValues) {
      refuse(fmt::format("more than {} values", kMaxJsonValues));
    }
  }
  bool add(Config&& value) {
    count();
    slot() = std::move(value);
    return true;
  }
  // Where the next value goes.
  Config& slot() {
    if (frames_.empty()) return result_;
    Frame& top = frames_.back();
    if (!top.is_object) return top.array.emplace_back();
    return top.object.emplace_back(std::move(top.key), Config()).second;
  }
  bool open(bool is_object) {
    count();
    if (frames_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      refuse(fmt::format("values nested more than {} deep", kMaxJsonDepth));
    }
    frames_.emplace_back();
    frames_.back().is_object = is_object;
    return true;
  }
  bool close(Config&& value) {
    frames_.pop_back();
    slot() = std::move(value);
    return true;
  }
  void check_keys(const Config::Object& object) const {
    std::vector<std::string_view> keys;
    keys.reserve(object.size());
    for (const auto& [name, value] : object) keys.emplace_back(name);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) refuse("the key \"" + std::string(*twice) + "\" twice in one object");
  }

  const std::string& origin_;
  std::vector<Frame> frames_;
  Config result_;
  int64_t count_ = 0;
};

// NaN and Infinity, as Python writes them.
constexpr std::string_view kPythonNumbers[] = {"NaN", "-Infinity", "Infinity"};

// The text with such numbers as texts that begin with a mark, which no other text in it has; empty
// where there are none.
constexpr std::string_view kMark = "\x1e";
std::string with_marked_numbers(std::string_view text) {
  if (text.find("NaN") == std::string_view::npos &&
      text.find("Infinity") == std::string_view::npos) {
    return "";
  }
  std::string out;
  bool any = false;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\' && i + 1 < text.size()) {
      out += c;
      out += text[++i];
      continue;
    }
    const auto number = std::ranges::find_if(kPythonNumbers, [&](std::string_view known) {
      return !quoted && text.substr(i).starts_with(known);
    });
    if (number == std::end(kPythonNumbers)) {
      out += c;
      continue;
    }
    any = true;
    out += fmt::format("\"\\u001e{}\"", *number);
    i += number->size() - 1;
  }
  return any ? out : std::string();
}

// Where a marked number stands: in which layer, optimizer or loss, under which key.
struct MarkedNumber {
  std::string owner, key, value;
};

std::optional<MarkedNumber> find_marked(const Config& value, const std::string& owner,
                                        const std::string& key) {
  if (value.is_string()) {
    if (!value.as_string().starts_with(kMark)) return std::nullopt;
    return MarkedNumber{owner, key, value.as_string().substr(kMark.size())};
  }
  if (value.is_array()) {
    for (const Config& item : value.as_array()) {
      if (auto found = find_marked(item, owner, key)) return found;
    }
    return std::nullopt;
  }
  if (!value.is_object()) return std::nullopt;
  std::string own = owner;
  if (const Config* name = value.find("class_name"); name != nullptr && name->is_string()) {
    own = name->as_string();
  }
  const Config* config = value.find("config");
  const Config* name = config != nullptr && config->is_object() ? config->find("name") : nullptr;
  if (name != nullptr && name->is_string()) own = name->as_string();
  for (const auto& [inner, item] : value.as_object()) {
    if (auto found = find_marked(item, own, inner)) return found;
  }
  return std::nullopt;
}

void print_string(const std::string& text, std::string& out) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

// The shortest text that reads back as the same double, and never as an integer.
void print_double(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    return;
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  const std::string_view digits(text.data(), static_cast<size_t>(end - text.data()));
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

class Printer {
 public:
  // `sink`: takes the text in pieces; null: it is taken whole.
  Printer(int indent, codec::ByteSink* sink) : indent_(indent), sink_(sink) {}

  void print(const Config& value, int depth) {
    if (value.is_null()) {
      text_ += "null";
    } else if (value.is_bool()) {
      text_ += value.as_bool() ? "true" : "false";
    } else if (value.is_int()) {
      text_ += std::to_string(value.as_int());
    } else if (value.is_number()) {
      print_double(value.as_double(), text_);
    } else if (value.is_string()) {
      print_string(value.as_string(), text_);
    } else if (value.is_array()) {
      print_array(value.as_array(), depth);
    } else {
      print_object(value.as_object(), depth);
    }
  }
  std::string take() { return std::move(text_); }
  void flush() {
    sink_->write(std::as_bytes(std::span(text_)));
    text_.clear();
  }

 private:
  void print_array(const Config::Array& items, int depth) {
    text_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) separate();
      break_line(depth + 1);
      print(items[i], depth + 1);
    }
    if (!items.empty()) break_line(depth);
    text_ += ']';
  }
  void print_object(const Config::Object& items, int depth) {
    text_ += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) separate();
      break_line(depth + 1);
      print_string(items[i].first, text_);
      text_ += ": ";
      print(items[i].second, depth + 1);
    }
    if (!items.empty()) break_line(depth);
    text_ += '}';
  }
  void separate() {
    constexpr size_t kPiece = 64 << 10;
    text_ += indent_ > 0 ? "," : ", ";
    if (sink_ != nullptr && text_.size() >= kPiece) flush();
  }
  void break_line(int depth) {
    if (indent_ == 0) return;
    text_ += '\n';
    text_.append(static_cast<size_t>(indent_) * static_cast<size_t>(depth), ' ');
  }

  int indent_;
  codec::ByteSink* sink_;
  std::string text_;
};

}  // namespace

layers::Config parse_json(std::string_view text, const std::string& origin) {
  if (static_cast<int64_t>(text.size()) > kMaxJsonBytes) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: expected a Keras configuration of at most {}, received {}.",
                            origin, to_string(Bytes(kMaxJsonBytes)),
                            to_string(Bytes(static_cast<int64_t>(text.size())))));
  }
  Reader reader(origin);
  const std::string marked = with_marked_numbers(text);
  nlohmann::json::sax_parse(marked.empty() ? text : std::string_view(marked), &reader);
  Config value = reader.take();
  if (marked.empty()) return value;
  if (const auto found = find_marked(value, origin, "a value")) {
    throw Error(ErrorKind::kModel, fmt::format("[{}] {}: expected a finite number, received {}.",
                                               found->owner, found->key, found->value));
  }
  return value;
}

std::string print_json(const layers::Config& value, int indent) {
  Printer printer(indent, nullptr);
  printer.print(value, 0);
  return printer.take();
}

void print_json(const layers::Config& value, codec::ByteSink& sink) {
  Printer printer(0, &sink);
  printer.print(value, 0);
  printer.flush();
}

}  // namespace plimsoll::formats
