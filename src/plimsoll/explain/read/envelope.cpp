#include "explain/read/envelope.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "explain/read/number.h"
#include "explain/read/patterns.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;

// Fields that hold what a program printed, lower case.
constexpr std::array<std::string_view, 21> kTextKeys = {
    "log",        "msg",       "message",  "textpayload", "text", "line",    "exception",
    "exc",        "exc_info",  "exc_text", "error",       "err",  "stack",   "stack_trace",
    "stacktrace", "traceback", "event",    "output",      "body", "content", "stderr"};

bool is_text_key(std::string_view key) {
  return std::any_of(kTextKeys.begin(), kTextKeys.end(),
                     [key](std::string_view text) { return equals_ignoring_case(key, text); });
}

// What a field besides the text may say that matters.
bool is_telling(std::string_view text) {
  using enum LineClass;
  constexpr ClassMask kTelling = mask_of(kFailure) | mask_of(kTorch) | mask_of(kKernel) |
                                 mask_of(kLimits) | mask_of(kKilled) | mask_of(kHost);
  PatternScanner scanner(PatternAutomaton::shared());
  return (scanner.scan(text) & kTelling) != 0;
}

// Four hexadecimal digits at `at`; 0xfffd if there are none.
uint32_t hex4(std::string_view text, size_t at) {
  uint32_t code = 0;
  if (at + 4 > text.size()) return 0xfffd;
  for (size_t i = at; i < at + 4; ++i) {
    const char c = to_lower(text[i]);
    if (is_digit(c)) {
      code = code * 16 + static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      code = code * 16 + static_cast<uint32_t>(c - 'a' + 10);
    } else {
      return 0xfffd;
    }
  }
  return code;
}

// The escape whose backslash stands at `at`; moves after it.
void append_escape(std::string_view text, size_t& at, std::string& out) {
  if (++at >= text.size()) return;
  const char c = text[at++];
  if (c == 'n') {
    out += '\n';
  } else if (c == 'r') {
    out += '\r';
  } else if (c == 't') {
    out += '\t';
  } else if (c == 'u') {
    uint32_t code = hex4(text, at);
    at = std::min(at + 4, text.size());
    if (code >= 0xd800 && code < 0xdc00 && text.substr(at, 2) == "\\u") {
      const uint32_t low = hex4(text, at + 2);
      if (low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
      }
    }
    // Of a terminal sequence only the ESC is left out here: the rest may be gone already.
    if (code < 0x20) return;
    append_utf8(code >= 0xd800 && code < 0xe000 ? 0xfffd : code, out);
  } else {
    out += c;  // \" \\ \/ and what should not stand there
  }
}

// The string whose opening quotation mark stands at `at`; moves after its end.
std::string read_string(std::string_view text, size_t& at) {
  std::string value;
  for (++at; at < text.size();) {
    if (text[at] == '"') {
      ++at;
      return value;
    }
    if (text[at] == '\\') {
      append_escape(text, at, value);
    } else {
      value += text[at++];
    }
  }
  return value;
}

bool is_level_key(std::string_view key) {
  constexpr std::array<std::string_view, 5> kKeys = {"level", "lvl", "levelname", "severity",
                                                     "log_level"};
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [key](std::string_view level) { return equals_ignoring_case(key, level); });
}

bool is_quiet_level(std::string_view value) {
  constexpr std::array<std::string_view, 5> kQuiet = {"warn", "notice", "debug", "trace", "info"};
  return std::any_of(kQuiet.begin(), kQuiet.end(), [value](std::string_view level) {
    return equals_ignoring_case(value.substr(0, level.size()), level);
  });
}

struct Parts {
  std::vector<std::string> lines;
  std::string rest;  // the other fields
  bool has_text = false;
  bool is_quiet = false;
};

void add_text(std::string_view value, Parts& parts) {
  parts.has_text = true;
  while (!value.empty()) {
    const size_t end = value.find_first_of("\n\r");
    if (end != 0) parts.lines.emplace_back(value.substr(0, end));
    if (end == npos) break;
    const bool both = value.substr(end, 2) == "\r\n";
    // An empty line separates; a line's end at the end of the value does not.
    if (end == 0 && value.size() > 1) parts.lines.emplace_back();
    value.remove_prefix(end + (both ? 2 : 1));
  }
}

Parts read_json(std::string_view text) {
  Parts parts;
  std::string key;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '"') {
      parts.rest += text[at++];
      continue;
    }
    std::string value = read_string(text, at);
    size_t colon = at;
    while (colon < text.size() && text[colon] == ' ') ++colon;
    if (colon < text.size() && text[colon] == ':') {
      key = value;
      parts.rest += '"' + value + '"';
    } else if (is_text_key(key) || value.find('\n') != npos) {
      add_text(value, parts);
      parts.rest += "\"\"";
    } else {
      parts.is_quiet = parts.is_quiet || (is_level_key(key) && is_quiet_level(value));
      parts.rest += '"' + value + '"';
    }
  }
  return parts;
}

Parts read_pairs(std::string_view text) {
  Parts parts;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && text[end] != '=' && text[end] != ' ') ++end;
    const std::string_view key = text.substr(at, end - at);
    if (end >= text.size() || text[end] == ' ') {
      parts.rest += text.substr(at, end + 1 - at);
      at = end + 1;
      continue;
    }
    at = end + 1;
    std::string value;
    if (at < text.size() && text[at] == '"') {
      value = read_string(text, at);
    } else {
      const size_t stop = std::min(text.find(' ', at), text.size());
      value = text.substr(at, stop - at);
      at = stop;
    }
    if (is_text_key(key)) {
      add_text(value, parts);
    } else {
      parts.is_quiet = parts.is_quiet || (is_level_key(key) && is_quiet_level(value));
      parts.rest += std::string(key) + "=" + value;
    }
  }
  return parts;
}

bool opens_pairs(std::string_view line) {
  constexpr std::array<std::string_view, 6> kFirst = {
      "time=", "ts=", "t=", "level=", "lvl=", "timestamp="};
  const bool first = std::any_of(kFirst.begin(), kFirst.end(), [line](std::string_view key) {
    return line.substr(0, key.size()) == key;
  });
  return first && (line.find(" msg=") != npos || line.find(" message=") != npos ||
                   line.find(" err=") != npos || line.find(" error=") != npos);
}

}  // namespace

bool Envelope::opens(std::string_view line) {
  size_t at = 0;
  if (line.substr(0, 1) == "{") {
    for (at = 1; at < line.size() && line[at] == ' ';) ++at;
    return line.substr(at, 1) == "\"" && line.find("\":", at) != npos;
  }
  return opens_pairs(line);
}

Envelope::Envelope(std::string_view line) : text_(line), json_(line.substr(0, 1) == "{") { scan(); }

void Envelope::add(std::string_view rest) {
  text_ += rest;
  scan();
}

void Envelope::scan() {
  for (; scanned_ < text_.size() && !complete_; ++scanned_) {
    const char c = text_[scanned_];
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_) {
      escaped_ = c == '\\';
      in_string_ = c != '"';
    } else if (c == '"') {
      in_string_ = true;
    } else if (json_ && (c == '{' || c == '[')) {
      ++depth_;
    } else if (json_ && (c == '}' || c == ']')) {
      complete_ = --depth_ <= 0;
    }
  }
  // Pairs end with their line.
  if (!json_) complete_ = !in_string_;
  if (text_.size() >= kMostBytes) complete_ = true;
}

bool Envelope::is_quiet() const { return (json_ ? read_json(text_) : read_pairs(text_)).is_quiet; }

std::vector<std::string> Envelope::lines() const {
  Parts parts = json_ ? read_json(text_) : read_pairs(text_);
  if (!parts.has_text || is_telling(parts.rest)) parts.lines.push_back(std::move(parts.rest));
  return std::move(parts.lines);
}

}  // namespace plimsoll::explain
