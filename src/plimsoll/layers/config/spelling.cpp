#include "layers/config/spelling.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace plimsoll::layers {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class SpellingParser {
 public:
  SpellingParser(std::string_view text, std::string_view what)
      : text_(text), rest_(text), what_(what) {}

  Spelling parse() {
    Spelling spelling{.name = word("a name")};
    if (!take('(')) {
      expect_end();
      return spelling;
    }
    while (!take(')')) {
      if (!spelling.arguments.empty() && !take(',')) fail("\",\" or \")\"");
      std::string key = word("the name of an option");
      for (const auto& [known, value] : spelling.arguments) {
        if (known == key) fail_with("expected each option once, received " + key + " twice");
      }
      if (!take('=')) fail("\"=\" after " + key);
      spelling.arguments.emplace_back(std::move(key), value());
    }
    expect_end();
    return spelling;
  }

 private:
  [[noreturn]] void fail_with(const std::string& message) const {
    throw Error(ErrorKind::kConfig, std::string(what_) + " '" + std::string(text_) +
                                        "': " + message +
                                        ". Write it like 'adam(learning_rate=0.001,beta_1=0.9)'.");
  }
  [[noreturn]] void fail(const std::string& expected) const {
    fail_with("expected " + expected + ", received " +
              (rest_.empty() ? "the end" : "\"" + std::string(rest_) + "\""));
  }
  void skip_blanks() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool take(char symbol) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != symbol) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect_end() {
    skip_blanks();
    if (!rest_.empty()) fail("the end");
  }
  std::string word(const std::string& expected) {
    skip_blanks();
    size_t length = 0;
    while (length < rest_.size() && is_name_character(rest_[length])) ++length;
    if (length == 0) fail(expected);
    std::string result(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return result;
  }

  Config value() {
    skip_blanks();
    if (!rest_.empty() && (rest_.front() == '"' || rest_.front() == '\'')) return quoted();
    const size_t length = std::min(rest_.find_first_of(",)"), rest_.size());
    std::string_view token = rest_.substr(0, length);
    while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
    if (token.empty()) fail("a value");
    rest_.remove_prefix(length);
    if (token == "true" || token == "True") return true;
    if (token == "false" || token == "False") return false;
    if (token == "null" || token == "None") return Config();
    return number_or_word(token);
  }

  static Config number_or_word(std::string_view token) {
    const char* const end = token.data() + token.size();
    int64_t integer = 0;
    const auto whole = std::from_chars(token.data(), end, integer);
    if (whole.ec == std::errc() && whole.ptr == end) return integer;
    double number = 0;
    const auto real = std::from_chars(token.data(), end, number);
    if (real.ec == std::errc() && real.ptr == end) return number;
    return std::string(token);
  }

  Config quoted() {
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    const size_t end = rest_.find(quote);
    if (end == std::string_view::npos) fail("a closing quote");
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string_view text_;
  std::string_view rest_;
  std::string_view what_;
};

// A function in a wrapper is called what it is called by itself: {"class_name":
// "MeanMetricWrapper", "config": {"name": "accuracy", "fn": "binary_accuracy"}}.
void unwrap_function(Spelling& spelling) {
  if (!spelling.name.ends_with("Wrapper")) return;
  const auto fn = std::ranges::find(spelling.arguments, "fn", &Config::Object::value_type::first);
  if (fn == spelling.arguments.end()) return;
  const Config* inner = fn->second.is_object() ? fn->second.find("config") : &fn->second;
  if (inner == nullptr || !inner->is_string()) return;
  spelling.name = inner->as_string();
  spelling.arguments.erase(fn);
}

}  // namespace

Spelling parse_spelling(std::string_view text, std::string_view what) {
  return SpellingParser(text, what).parse();
}

Spelling read_object(const Config& config, std::string_view what) {
  if (config.is_string()) return {config.as_string()};
  const Config* class_name = config.find("class_name");
  if (class_name == nullptr || !class_name->is_string()) {
    throw Error(ErrorKind::kModel, std::string(what) +
                                       ": expected a name, or an object with a class_name, "
                                       "received " +
                                       config.to_json() + ".");
  }
  Spelling result{class_name->as_string()};
  const Config* arguments = config.find("config");
  if (arguments != nullptr && arguments->is_string()) {
    result.name = arguments->as_string();  // {"class_name": "function", "config": "mse"}
  } else if (arguments != nullptr && !arguments->is_null()) {
    result.arguments = arguments->as_object();
  }
  if (result.name.starts_with("Custom>")) result.name.erase(0, 7);  // Keras 2.11 to 2.15
  unwrap_function(result);
  return result;
}

Config make_object(std::string_view class_name, Config::Object arguments) {
  return Config::Object{{"class_name", std::string(class_name)}, {"config", std::move(arguments)}};
}

}  // namespace plimsoll::layers
