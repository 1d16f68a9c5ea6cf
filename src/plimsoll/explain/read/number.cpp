#include "explain/read/number.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"

namespace plimsoll::explain {
namespace {

struct Unit {
  std::string_view name;  // lower case, longest first among those that share a beginning
  double factor;
};

constexpr double kKi = 1024.0;
constexpr Unit kUnits[] = {
    {"bytes", 1},
    {"byte", 1},
    {"kib", kKi},
    {"mib", kKi* kKi},
    {"gib", kKi* kKi* kKi},
    {"tib", kKi* kKi* kKi* kKi},
    {"pib", kKi* kKi* kKi* kKi* kKi},
    {"eib", kKi* kKi* kKi* kKi* kKi* kKi},
    {"octets", 1},
    {"kio", kKi},
    {"mio", kKi* kKi},
    {"gio", kKi* kKi* kKi},
    {"tio", kKi* kKi* kKi* kKi},
    {"kb", kKi},
    {"mb", kKi* kKi},
    {"gb", kKi* kKi* kKi},
    {"tb", kKi* kKi* kKi* kKi},
    {"ki", kKi},
    {"mi", kKi* kKi},
    {"gi", kKi* kKi* kKi},
    {"k", kKi},
    {"m", kKi* kKi},
    {"g", kKi* kKi* kKi},
    {"t", kKi* kKi* kKi* kKi},
    {"b", 1},
};

// Digits after a separator.
struct Group {
  char separator = 0;
  std::string_view digits;
};

std::string_view digits_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return text.substr(at, end - at);
}

struct Groups {
  static constexpr size_t kMost = 8;
  std::array<Group, kMost> all;
  size_t count = 0;
  const Group& operator[](size_t i) const { return all[i]; }
  size_t size() const { return count; }
};

Groups groups_at(std::string_view text, size_t at) {
  Groups groups;
  while (groups.count < Groups::kMost && at + 1 < text.size() &&
         std::string_view(",.'_ ").find(text[at]) != std::string_view::npos) {
    const std::string_view digits = digits_at(text, at + 1);
    if (digits.empty()) break;
    groups.all[groups.count++] = {text[at], digits};
    at += 1 + digits.size();
  }
  return groups;
}

// How many of the groups belong to the whole number: all equally separated, of three digits each.
size_t count_grouped(const Groups& groups, size_t first_digits) {
  if (first_digits > 3 || groups.count == 0) return 0;
  size_t count = 0;
  while (count < groups.size() && groups[count].digits.size() == 3 &&
         groups[count].separator == groups[0].separator) {
    ++count;
  }
  const char separator = groups[0].separator;
  const bool decimals = count < groups.size() &&
                        (groups[count].separator == '.' || groups[count].separator == ',') &&
                        groups[count].separator != separator;
  // One group alone may be decimals, or the next of several numbers.
  if (count == 1 && separator == '.' && !decimals) return 0;
  if (count == 1 && separator == ' ' && !decimals) return 0;
  return count;
}

}  // namespace

std::string read_number(std::string_view text, size_t& at) {
  const std::string_view first = at < text.size() ? digits_at(text, at) : std::string_view();
  if (first.empty()) return "";
  const Groups groups = groups_at(text, at + first.size());
  std::string number(first);
  at += first.size();
  const size_t grouped = first == "0" ? 0 : count_grouped(groups, first.size());
  for (size_t i = 0; i < grouped; ++i) {
    number += groups[i].digits;
    at += 1 + groups[i].digits.size();
  }
  const bool more = grouped < groups.size();
  if (more && (groups[grouped].separator == '.' || groups[grouped].separator == ',')) {
    number += '.';
    number += groups[grouped].digits;
    at += 1 + groups[grouped].digits.size();
  } else if (at < text.size() && text[at] == '.') {
    ++at;  // "184. MiB"
  }
  return number;
}

size_t find_ignoring_case(std::string_view text, std::string_view phrase, size_t from) {
  const char first = phrase.front();
  const char upper = first >= 'a' && first <= 'z' ? static_cast<char>(first - 'a' + 'A') : first;
  for (size_t at = from; at + phrase.size() <= text.size(); ++at) {
    if (text[at] != first && text[at] != upper) continue;
    if (equals_ignoring_case(text.substr(at, phrase.size()), phrase)) return at;
  }
  return std::string_view::npos;
}

std::optional<int64_t> read_integer(std::string_view text, size_t& at) {
  if (at >= text.size() || !is_digit(text[at])) return std::nullopt;
  int64_t value = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    const int64_t digit = text[at] - '0';
    value = std::min(value * 10 + digit, kLargestNumber);
  }
  return value;
}

std::optional<double> read_unit(std::string_view text, size_t& at) {
  constexpr std::string_view kFirstLetters = "bkmgtpeo";
  if (at >= text.size() || kFirstLetters.find(to_lower(text[at])) == std::string_view::npos) {
    return std::nullopt;
  }
  for (const Unit& unit : kUnits) {
    const size_t end = at + unit.name.size();
    if (end > text.size()) continue;
    if (!equals_ignoring_case(text.substr(at, unit.name.size()), unit.name)) continue;
    if (end < text.size() && is_alpha(text[end])) continue;
    at = end;
    return unit.factor;
  }
  return std::nullopt;
}

std::optional<double> read_bytes(std::string_view text, size_t& at) {
  size_t end = at;
  const std::string number = read_number(text, end);
  if (number.empty()) return std::nullopt;
  double value = 0;
  double scale = 0;  // 0: before the point
  for (const char c : number) {
    if (c == '.') {
      scale = 0.1;
    } else if (scale == 0) {
      value = value * 10 + (c - '0');
    } else {
      value += scale * (c - '0');
      scale /= 10;
    }
  }
  size_t unit_at = end;
  while (unit_at < text.size() && text[unit_at] == ' ') ++unit_at;
  const std::optional<double> factor = read_unit(text, unit_at);
  if (!factor) return std::nullopt;
  at = unit_at;
  return value * *factor;
}

std::string size_words(std::optional<int64_t> bytes) {
  return bytes ? to_string(Bytes(*bytes)) : "?";
}

void append_utf8(uint32_t code, std::string& out) {
  const auto tail = [&](unsigned shift) {
    out += static_cast<char>(0x80 | ((code >> shift) & 0x3f));
  };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

int64_t round_to_bytes(double value) {
  if (!(value > 0)) return 0;
  if (value >= static_cast<double>(kLargestNumber)) return kLargestNumber;
  return static_cast<int64_t>(value + 0.5);
}

}  // namespace plimsoll::explain
