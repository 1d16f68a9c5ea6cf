#include "report/units.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "base/format.h"

namespace plimsoll::report {
namespace {

constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;
constexpr double kGiB = 1024 * kMiB;
constexpr std::array<Unit, 5> kSizes = {
    {{"B", 1, 0}, {"KiB", kKiB, 1}, {"MiB", kMiB, 1}, {"GiB", kGiB, 2}, {"TiB", 1024 * kGiB, 2}}};
constexpr std::array<Unit, 6> kTimes = {{{"ns", 1e-9, 0},
                                         {"µs", 1e-6, 1},
                                         {"ms", 1e-3, 1},
                                         {"s", 1, 2},
                                         {"min", 60, 1},
                                         {"h", 3600, 1}}};

constexpr std::array<Unit, 4> kCounts = {
    {{"", 1, 0}, {"thousand", 1e3, 1}, {"million", 1e6, 1}, {"billion", 1e9, 2}}};

// The largest unit of which there is at least one.
template <size_t count>
Unit choose(const std::array<Unit, count>& units, double largest) {
  size_t unit = 0;
  while (unit + 1 < count && largest >= units[unit + 1].size) ++unit;
  return units[unit];
}

std::string print(double value, int decimals) { return fmt::format("{:.{}f}", value, decimals); }

}  // namespace

Unit size_unit(Bytes largest) {
  return choose(kSizes, std::fabs(static_cast<double>(largest.count())));
}

Unit time_unit(double largest_seconds) { return choose(kTimes, largest_seconds); }

Unit count_unit(double largest) { return choose(kCounts, largest); }

std::string in_unit(double value, const Unit& unit) {
  if (!std::isfinite(value)) return "?";
  const double least = std::pow(10.0, -unit.decimals);
  if (value > 0 && value / unit.size < least / 2) return "<" + print(least, unit.decimals);
  return print(value / unit.size, unit.decimals);
}

std::string amount(Bytes bytes, const Unit& unit) {
  const double least = std::pow(10.0, -unit.decimals) * unit.size;
  const Unit fine = static_cast<double>(bytes.count()) < least ? size_unit(bytes) : unit;
  return in_unit(bytes, fine) + " " + fine.name;
}

Bytes round_up_to_unit(Bytes bytes, const Unit& unit) {
  const double step = unit.size / std::pow(10.0, unit.decimals);
  return Bytes(static_cast<int64_t>(
      std::floor(std::ceil(static_cast<double>(bytes.count()) / step) * step + 0.5)));
}

std::string size_option(Bytes bytes) {
  const Unit unit = size_unit(bytes);
  return in_unit(round_up_to_unit(bytes, unit), unit) + unit.name;
}

}  // namespace plimsoll::report
