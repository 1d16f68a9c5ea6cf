#include "report/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/format.h"

namespace plimsoll::report {
namespace {

// Code points of UTF-8 text: bytes that do not continue one.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string significant(double value, const char* unit) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

std::string two_units(int64_t large, const char* large_unit, int64_t small,
                      const char* small_unit) {
  return fmt::format("{} {} {:02} {}", large, large_unit, small, small_unit);
}

}  // namespace

std::string Table::print() const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      const bool left = i == 0 || i + 1 == widths.size();
      line += (i == 0 ? "" : "  ") + (left ? row[i] + padding : padding + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 0.9995e-6) return significant(seconds * 1e9, "ns");
  if (seconds < 0.9995e-3) return significant(seconds * 1e6, "µs");
  if (seconds < 0.9995) return significant(seconds * 1e3, "ms");
  if (seconds < 59.95) return significant(seconds, "s");
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return two_units(whole / 60, "min", whole % 60, "s");
  return two_units(whole / 3600, "h", whole % 3600 / 60, "min");
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace plimsoll::report
