#include "explain/number.h"

#include <algorithm>

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
    {"kb", kKi},
    {"mb", kKi* kKi},
    {"gb", kKi* kKi* kKi},
    {"tb", kKi* kKi* kKi* kKi},
    {"k", kKi},
    {"m", kKi* kKi},
    {"g", kKi* kKi* kKi},
    {"t", kKi* kKi* kKi* kKi},
    {"b", 1},
};

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (to_lower(a[i]) != to_lower(b[i])) return false;
  }
  return true;
}

size_t find_ignoring_case(std::string_view text, std::string_view phrase, size_t from) {
  for (size_t at = from; at + phrase.size() <= text.size(); ++at) {
    if (to_lower(text[at]) == phrase.front() &&
        equals_ignoring_case(text.substr(at, phrase.size()), phrase)) {
      return at;
    }
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
  double value = 0;
  if (end >= text.size() || !is_digit(text[end])) return std::nullopt;
  for (; end < text.size() && is_digit(text[end]); ++end) value = value * 10 + (text[end] - '0');
  if (end < text.size() && text[end] == '.') {
    double scale = 0.1;
    for (++end; end < text.size() && is_digit(text[end]); ++end, scale /= 10) {
      value += scale * (text[end] - '0');
    }
  }
  size_t unit_at = end;
  while (unit_at < text.size() && text[unit_at] == ' ') ++unit_at;
  const std::optional<double> factor = read_unit(text, unit_at);
  if (!factor) return std::nullopt;
  at = unit_at;
  return value * *factor;
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
