#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "explain/read/document.h"
#include "explain/read/number.h"
#include "explain/read/prefix.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kLongRun = 8;  // blanks; longer runs are not typed by anyone

struct Replacement {
  std::string_view from;
  std::string_view to;
};

constexpr Replacement kEntities[] = {
    {"&gt;", ">"}, {"&lt;", "<"}, {"&amp;", "&"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&nbsp;", " "},
};

// Full-width and typographic forms of what the grammars use.
constexpr Replacement kCharacters[] = {
    {"（", "("}, {"）", ")"}, {"：", ":"}, {"，", ","},     {"；", ";"},     {"“", "\""},
    {"”", "\""}, {"‘", "'"},  {"’", "'"},  {"\u00a0", " "}, {"\u3000", " "},
};

// Length of a terminal sequence that starts with ESC at `at`.
size_t escape_length(std::string_view text, size_t at) {
  size_t end = at + 1;
  if (end >= text.size()) return 1;
  const char kind = text[end];
  if (kind == '[') {
    for (++end; end < text.size(); ++end) {
      if (text[end] >= '@' && text[end] <= '~') return end + 1 - at;
      if (text[end] < ' ') break;
    }
    return end - at;
  }
  if (kind == ']' || kind == 'P' || kind == '_' || kind == '^') {
    for (++end; end < text.size(); ++end) {
      if (text[end] == '\a') return end + 1 - at;
      if (text[end] == '\x1b') return end + 1 < text.size() ? end + 2 - at : end + 1 - at;
    }
    return end - at;
  }
  return 2;
}

// Length of "[0m" or "[1;36m" whose ESC was lost, or 0.
size_t lost_escape_length(std::string_view text, size_t at) {
  size_t end = at + 1;
  size_t digits = 0;
  while (end < text.size() && end - at < 12 && (is_digit(text[end]) || text[end] == ';')) {
    digits += is_digit(text[end]) ? 1 : 0;
    ++end;
  }
  return digits > 0 && end < text.size() && text[end] == 'm' ? end + 1 - at : 0;
}

// Length of the valid UTF-8 sequence at `at` and its code point; 0 if invalid.
size_t utf8_length(std::string_view text, size_t at, uint32_t& code) {
  const auto lead = static_cast<uint8_t>(text[at]);
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length == 0 || lead > 0xf4 || at + length > text.size()) return 0;
  code = lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<uint8_t>(text[at + i]);
    if ((next & 0xc0) != 0x80) return 0;
    code = (code << 6) | (next & 0x3fu);
  }
  static constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < kSmallest[length] || code > 0x10ffff || surrogate ? 0 : length;
}

// Controls, zero-width and direction marks: nothing a terminal should be handed.
bool is_dropped(uint32_t code) {
  return code < 0xa0 || code == 0xad || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
         code == 0xfeff || (code >= 0xe0000 && code <= 0xe0fff) ||
         (code >= 0xfff9 && code <= 0xfffb);
}

// Characters that stay as they are, whatever stands beside them.
constexpr std::array<bool, 256> kIsPlain = [] {
  std::array<bool, 256> is_plain{};
  for (size_t c = ' '; c < 0x7f; ++c) is_plain[c] = c != '[' && c != '&';
  return is_plain;
}();

// Appends the character at `at` in its clean form and returns how many bytes it took.
size_t append_character(std::string_view raw, size_t at, std::string& out) {
  const char c = raw[at];
  if (c == '\x1b') return escape_length(raw, at);
  if (c == '[') {
    if (const size_t length = lost_escape_length(raw, at)) return length;
  }
  if (c == '&') {
    for (const Replacement& entity : kEntities) {
      if (raw.substr(at, entity.from.size()) == entity.from) {
        out += entity.to;
        return entity.from.size();
      }
    }
  }
  if (c == '\t') {
    out += ' ';
    return 1;
  }
  if (static_cast<uint8_t>(c) < 0x80) {
    if (static_cast<uint8_t>(c) >= 0x20 && c != 0x7f) out += c;
    return 1;
  }
  uint32_t code = 0;
  const size_t length = utf8_length(raw, at, code);
  if (length == 0) {
    out += '?';
    return 1;
  }
  if (is_dropped(code) && code != 0xa0) return length;
  const std::string_view character = raw.substr(at, length);
  for (const Replacement& replacement : kCharacters) {
    if (character == replacement.from) {
      out += replacement.to;
      return length;
    }
  }
  out += character;
  return length;
}

// "> " of a quotation and "# >" of a comment.
std::string_view without_quote_marks(std::string_view line) {
  size_t at = 0;
  while (at < line.size() && (line[at] == ' ' || line[at] == '>' || line[at] == '#')) ++at;
  const size_t mark = line.substr(0, at).rfind('>');
  if (mark == std::string_view::npos) return line;
  return line.substr(line.substr(mark + 1, 1) == " " ? mark + 2 : mark + 1);
}

}  // namespace

std::string plain_text(std::string_view raw) {
  std::string plain;
  plain.reserve(raw.size());
  for (size_t at = 0; at < raw.size();) {
    size_t end = at;
    while (end < raw.size() && kIsPlain[static_cast<uint8_t>(raw[end])]) ++end;
    plain.append(raw.substr(at, end - at));
    at = end;
    if (at < raw.size()) at += append_character(raw, at, plain);
  }
  return plain;
}

std::string without_long_runs(std::string_view line) {
  constexpr std::string_view kRun = "         ";
  static_assert(kRun.size() == kLongRun + 1);
  if (!line.ends_with("  ") && line.find(kRun) == std::string_view::npos) return std::string(line);
  std::string result;
  result.reserve(line.size());
  for (size_t at = 0; at < line.size();) {
    size_t end = at;
    while (end < line.size() && line[end] == ' ') ++end;
    const size_t run = end - at;
    if (run <= kLongRun) {
      result.append(line.substr(at, run == 0 ? 1 : run));
      at += run == 0 ? 1 : run;
      continue;
    }
    const bool inside = at > 0 && end < line.size() && is_word(line[at - 1]) && is_word(line[end]);
    if (inside) {
      result += kSoftBreak;
    } else {
      result += at == 0 ? "        " : " ";
    }
    at = end;
  }
  while (!result.empty() && result.back() == ' ' && result.size() > 1 &&
         result[result.size() - 2] == ' ') {
    result.pop_back();
  }
  return result;
}

std::string_view without_marks(std::string_view plain, Prefix& prefix) {
  const std::string_view line = without_quote_marks(plain);
  prefix = read_prefix(line);
  return line.substr(prefix.length);
}

std::string clean_line(std::string_view raw) {
  Prefix prefix;
  const std::string plain = plain_text(raw);
  return without_long_runs(without_marks(plain, prefix));
}

}  // namespace plimsoll::explain
