#include "plan/tree/text_line.h"

#include <limits>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::plan {
namespace {

bool is_plain(char c) {
  return c != ' ' && c != '\t' && c != '(' && c != ')' && c != '"' && c != '\\' && c != '#' &&
         c != '=' && c != '\n' && c != '\r';
}

// A field's value or a word; quotes may open anywhere in it, as in kernel_set="a b".
size_t scan_word(std::string_view text, size_t at, std::string& word, bool& quoted, bool& closed) {
  bool inside = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (inside && c == '\\' && at + 1 < text.size()) {
      word += text[++at] == 'n' ? '\n' : text[at];
    } else if (c == '"') {
      inside = !inside;
      quoted = true;
    } else if (!inside && !is_plain(c) && c != '=' && c != '\\') {
      break;
    } else {
      word += c;
    }
  }
  closed = !inside;
  return at;
}

}  // namespace

std::string quote_name(std::string_view name) {
  bool plain = !name.empty() && name != "->";
  for (char c : name) plain = plain && is_plain(c);
  if (plain) return std::string(name);
  std::string quoted = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return quoted + '"';
}

TextLine::TextLine(std::string_view text, int number) : number_(number) {
  size_t at = 0;
  while (at < text.size() && text[at] != '#') {
    const char c = text[at];
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at;
    } else if (c == '(' || c == ')') {
      tokens_.push_back({std::string(1, c), false, true});
      ++at;
    } else {
      Token token;
      bool closed = true;
      at = scan_word(text, at, token.text, token.quoted, closed);
      if (!closed) fail("expected a closing quote, received the end of the line.");
      token.mark = !token.quoted && token.text == "->";
      tokens_.push_back(std::move(token));
    }
  }
}

void TextLine::fail(const std::string& message) const {
  throw Error(ErrorKind::kConfig, fmt::format("plan text, line {}: {}", number_, message));
}

void TextLine::fail_field(std::string_view key, std::string_view known) const {
  fail("expected one of the fields " + std::string(known) + ", received \"" + std::string(key) +
       "\". See docs/reference/plan-file.md.");
}

const TextLine::Token& TextLine::next(std::string_view what) {
  if (empty()) fail("expected " + std::string(what) + ", received the end of the line.");
  return tokens_[next_++];
}

std::string TextLine::take_name(std::string_view what) {
  const Token& token = next(what);
  if (token.mark) fail("expected " + std::string(what) + ", received " + token.text + ".");
  return token.text;
}

void TextLine::take_mark(std::string_view mark) {
  const Token& token = next(mark);
  if (!token.mark || token.text != mark) {
    fail("expected " + std::string(mark) + ", received \"" + token.text + "\".");
  }
}

bool TextLine::skip_mark(std::string_view mark) {
  if (empty() || !tokens_[next_].mark || tokens_[next_].text != mark) return false;
  ++next_;
  return true;
}

int32_t TextLine::take_number(char prefix, std::string_view what) {
  return parse_number(take_name(what), prefix, what);
}

void TextLine::take_field(std::string& key, std::string& value) {
  const std::string text = take_name("a field such as bytes=64");
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    fail("expected a field such as bytes=64, received \"" + text + "\".");
  }
  key = text.substr(0, equals);
  value = text.substr(equals + 1);
}

int64_t TextLine::parse_count(std::string_view text, std::string_view what) const {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t value = 0;
  bool good = !text.empty();
  for (char c : text) {
    good = good && c >= '0' && c <= '9' && value <= (kMost - (c - '0')) / 10;
    if (!good) break;
    value = value * 10 + (c - '0');
  }
  if (!good) {
    fail("expected " + std::string(what) + " as a number from 0 to 2^62, received \"" +
         std::string(text) + "\".");
  }
  return value;
}

int32_t TextLine::parse_number(std::string_view text, char prefix, std::string_view what) const {
  if (text.empty() || text.front() != prefix) {
    fail("expected " + std::string(what) + " such as " + prefix + "0, received \"" +
         std::string(text) + "\".");
  }
  const int64_t value = parse_count(text.substr(1), what);
  if (value > std::numeric_limits<int32_t>::max()) {
    fail("expected " + std::string(what) + " below 2^31, received \"" + std::string(text) + "\".");
  }
  return static_cast<int32_t>(value);
}

}  // namespace plimsoll::plan
