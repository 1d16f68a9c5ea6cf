#include "base/bytes.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll {
namespace {

struct Unit {
  std::string_view name;  // lower case
  int64_t factor;
};

constexpr int64_t kDecimal = 1000;
constexpr std::array<Unit, 10> kUnits = {{
    {"", 1},
    {"b", 1},
    {"kib", int64_t{1} << 10},
    {"mib", int64_t{1} << 20},
    {"gib", int64_t{1} << 30},
    {"tib", int64_t{1} << 40},
    {"kb", kDecimal},
    {"mb", kDecimal* kDecimal},
    {"gb", kDecimal* kDecimal* kDecimal},
    {"tb", kDecimal* kDecimal* kDecimal* kDecimal},
}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A decimal number without sign or exponent, split at the point so that whole numbers stay exact.
struct Decimal {
  int64_t integer = 0;
  long double fraction = 0;
};

// Takes the number off the front of `text`; nothing when there is none or it is too large.
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal number;
  size_t digits = 0;
  for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1), ++digits) {
    const int64_t digit = text.front() - '0';
    if (__builtin_mul_overflow(number.integer, int64_t{10}, &number.integer)) return std::nullopt;
    if (__builtin_add_overflow(number.integer, digit, &number.integer)) return std::nullopt;
  }
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    long double place = 0.1L;
    for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1), ++digits) {
      number.fraction += place * static_cast<long double>(text.front() - '0');
      place /= 10;
    }
  }
  if (digits == 0) return std::nullopt;
  return number;
}

// number × factor, the fraction rounded to whole bytes; nothing on overflow.
std::optional<int64_t> scale(const Decimal& number, int64_t factor) {
  int64_t result = 0;
  if (__builtin_mul_overflow(number.integer, factor, &result)) return std::nullopt;
  const auto rest =
      static_cast<int64_t>(std::floor(number.fraction * static_cast<long double>(factor) + 0.5L));
  if (__builtin_add_overflow(result, rest, &result)) return std::nullopt;
  return result;
}

std::optional<int64_t> percent_of(const Decimal& percent, Bytes whole) {
  const long double share = static_cast<long double>(percent.integer) + percent.fraction;
  const long double value = std::floor(share * static_cast<long double>(whole.count()) / 100.0L);
  if (!(value < 9.2e18L)) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<int64_t> read_size(std::string_view text, Bytes whole) {
  text = trim(text);
  const std::optional<Decimal> number = take_decimal(text);
  if (!number) return std::nullopt;
  text = trim(text);
  if (text == "%") return percent_of(*number, whole);
  std::string unit(text);
  for (char& c : unit) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const Unit& known : kUnits) {
    if (unit == known.name) return scale(*number, known.factor);
  }
  return std::nullopt;
}

}  // namespace

std::string to_string(Bytes value) {
  static constexpr std::array<const char*, 7> kNames = {"B",   "KiB", "MiB", "GiB",
                                                        "TiB", "PiB", "EiB"};
  const bool negative = value.count() < 0;
  double amount = std::fabs(static_cast<double>(value.count()));
  size_t unit = 0;
  if (amount >= 1024.0) {
    amount /= 1024.0;
    unit = 1;
    // 1023.6 would print as 1024 of a unit: the next one starts where three digits round up to it.
    while (amount >= 1023.5 && unit + 1 < kNames.size()) {
      amount /= 1024.0;
      ++unit;
    }
  }
  const int decimals = unit == 0 || amount >= 99.95 ? 0 : (amount >= 9.995 ? 1 : 2);
  std::string text = fmt::format("{:.{}f}", amount, decimals);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return (negative ? "-" : "") + text + " " + kNames[unit];
}

Bytes parse_bytes(std::string_view text, Bytes whole) {
  const std::optional<int64_t> count = read_size(text, whole);
  if (!count) {
    throw Error(ErrorKind::kConfig,
                "size: expected a number of bytes below 8 EiB such as 512MiB, 2GB, 1.5GiB, 4096 or "
                "75%, received \"" +
                    std::string(text) +
                    "\". Units: B, KiB, MiB, GiB, TiB (binary), kB, MB, GB, TB (decimal), %.");
  }
  return Bytes(*count);
}

}  // namespace plimsoll
