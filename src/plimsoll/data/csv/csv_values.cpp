#include "data/csv/csv_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>

#include "codec/csv.h"

namespace plimsoll::data {
namespace {

constexpr size_t kLongest = 64;  // of a number with groups

struct Marks {
  char decimal = '.';
  char group = 0;  // 0: none
  bool percent = false;
};

Marks marks_of(NumberStyle style) {
  static constexpr std::array<Marks, kNumberStyles> kMarks = {{{'.', 0, false},
                                                               {',', '.', false},
                                                               {'.', ',', false},
                                                               {'.', 0, true},
                                                               {',', '.', true},
                                                               {'.', ',', true}}};
  return kMarks[static_cast<size_t>(style)];
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether all groups but the first, of the digits in front of the decimal mark, are of three.
bool has_sound_groups(std::string_view digits, char group) {
  size_t first = std::min(digits.find(group), digits.size());
  if (first == digits.size()) return true;
  if (first == 0 || first > 3) return false;
  for (; first < digits.size(); first += 4) {
    if (digits[first] != group || digits.size() - first < 4) return false;
    if (!std::ranges::all_of(digits.substr(first + 1, 3), is_digit)) return false;
  }
  return true;
}

std::string_view without_percent(std::string_view text, bool& found) {
  found = text.ends_with('%');
  if (found) text.remove_suffix(1);
  while (found && text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string to_string(NumberStyle style) {
  static constexpr std::array<const char*, kNumberStyles> kNames = {
      "points",
      "decimal commas",
      "commas between thousands",
      "percent signs",
      "decimal commas and percent signs",
      "commas between thousands and percent signs"};
  return kNames[static_cast<size_t>(style)];
}

bool parse_number(std::string_view text, NumberStyle style, double& value) {
  if (style == NumberStyle::kPlain) return codec::parse_number(text, value);
  const Marks marks = marks_of(style);
  bool percent = false;
  text = without_percent(text, percent);
  if (percent != marks.percent) return false;
  if (marks.group == 0) return codec::parse_number(text, value);
  if (text.empty() || text.size() > kLongest) return false;
  const bool sign = text.front() == '-' || text.front() == '+';
  const std::string_view body = text.substr(sign ? 1 : 0);
  const size_t end = std::min(body.find_first_of(std::string{marks.decimal} + "eE"), body.size());
  if (!has_sound_groups(body.substr(0, end), marks.group)) return false;
  std::array<char, kLongest> plain;
  size_t size = 0;
  if (sign) plain[size++] = text.front();
  for (size_t i = 0; i < body.size(); ++i) {
    if (i < end && body[i] == marks.group) continue;
    // The other mark, where it does not belong, is no part of a number.
    if (body[i] != marks.decimal && (body[i] == ',' || body[i] == '.')) return false;
    plain[size++] = body[i] == marks.decimal ? '.' : body[i];
  }
  return codec::parse_number({plain.data(), size}, value);
}

StyleSet styles_of(char delimiter) {
  StyleSet set = style_bit(NumberStyle::kPlain) | style_bit(NumberStyle::kThousands) |
                 style_bit(NumberStyle::kPercent) | style_bit(NumberStyle::kThousandsPercent);
  if (delimiter != ',') {
    set |= style_bit(NumberStyle::kDecimalComma) | style_bit(NumberStyle::kDecimalCommaPercent);
  }
  return set;
}

StyleSet styles_that_read(std::string_view text, StyleSet among) {
  // Most words end here.
  const bool likely =
      !text.empty() && (is_digit(text.front()) || text.front() == '-' || text.front() == '+' ||
                        text.front() == '.' || text.front() == ',');
  StyleSet set = 0;
  if (!likely) return set;
  double ignored = 0;
  for (int i = 0; i < kNumberStyles; ++i) {
    const auto style = static_cast<NumberStyle>(i);
    const bool tried = (among & style_bit(style)) != 0;
    if (tried && parse_number(text, style, ignored)) set |= style_bit(style);
  }
  return set;
}

NumberStyle first_style(StyleSet among) {
  return static_cast<NumberStyle>(std::countr_zero(static_cast<unsigned>(among)));
}

bool shows_groups(std::string_view text, NumberStyle style) {
  const Marks marks = marks_of(style);
  if (marks.group == 0) return false;
  const auto groups = std::ranges::count(text, marks.group);
  return groups > 1 || (groups == 1 && text.find(marks.decimal) != std::string_view::npos);
}

bool may_be_plain(std::string_view text, NumberStyle style) {
  bool percent = false;
  double ignored = 0;
  const bool grouped = text.find(marks_of(style).group) != std::string_view::npos;
  return grouped && codec::parse_number(without_percent(text, percent), ignored);
}

bool is_infinite(std::string_view field) {
  constexpr size_t kLongestWord = 9;
  if (field.size() > kLongestWord) return false;
  if (field.starts_with('-') || field.starts_with('+')) field.remove_prefix(1);
  std::string word(field);
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word == "inf" || word == "infinity";
}

bool is_missing(std::string_view field) {
  static constexpr std::array<std::string_view, 9> kSpellings = {
      "", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"};
  return std::ranges::find(kSpellings, field) != kSpellings.end();
}

namespace {

constexpr std::array<std::string_view, kMissingWords> kWords = {
    "-",   "--",   "---",  ".",    "..",   "...",     "*",       "n/a",
    "na",  "n.a.", "N.A.", "#N/A", "#NA",  "#VALUE!", "#DIV/0!", "<NA>",
    "nil", "NIL",  "none", "NONE", "Null", "\u2013",  "\u2014",  "missing"};

}  // namespace

int missing_among_numbers(std::string_view field) {
  constexpr size_t kLongestWord = 7;
  if (field.empty() || field.size() > kLongestWord || is_digit(field.front())) return -1;
  const auto found = std::ranges::find(kWords, field);
  return found == kWords.end() ? -1 : static_cast<int>(found - kWords.begin());
}

std::string_view missing_word(int place) { return kWords[static_cast<size_t>(place)]; }

}  // namespace plimsoll::data
