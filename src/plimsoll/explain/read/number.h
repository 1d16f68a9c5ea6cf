#pragma once

// Numbers, byte sizes and characters as logs print them, from plain text. Units are binary whatever
// their spelling (KB, MB, GB of the frameworks are powers of 1024). Never throws. No log means more
// than kLargestNumber: larger figures are reported as that, so that sums and small multiples of a
// few of them cannot overflow.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::explain {

constexpr int64_t kLargestNumber = int64_t{1} << 59;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_word(char c) { return is_digit(c) || is_alpha(c) || c == '_'; }
inline char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline bool equals_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (to_lower(a[i]) != to_lower(b[i])) return false;
  }
  return true;
}
// Position of the lower-case `phrase`, or npos; `from` may lie beyond the end.
size_t find_ignoring_case(std::string_view text, std::string_view phrase, size_t from = 0);

// Digits from `at` on; moves `at` after them.
std::optional<int64_t> read_integer(std::string_view text, size_t& at);

// A number with its digits grouped or its decimals set off as some language does ("1,024.00",
// "1.073.741.824", "1'024", "2,00", "1 024,00"), as digits with a point; moves `at` after it. A
// single comma in front of three digits groups them; a single point never does. "" where none is.
std::string read_number(std::string_view text, size_t& at);

// Multiplier of the unit at `at` ("MiB", "MB", "M", "bytes", "B", …) and moves after it; nullopt
// and unmoved if there is none. Letters alone count only when no further letter follows.
std::optional<double> read_unit(std::string_view text, size_t& at);

// "18.00MiB", "6.933594GB", "4096 bytes", "184. MiB": bytes; moves `at` after it.
std::optional<double> read_bytes(std::string_view text, size_t& at);

// "1.67 GiB", or "?" for none.
std::string size_words(std::optional<int64_t> bytes);

// Appends a character's UTF-8.
void append_utf8(uint32_t code, std::string& out);

// Rounds half up, clamped to [0, kLargestNumber].
int64_t round_to_bytes(double value);

}  // namespace plimsoll::explain
