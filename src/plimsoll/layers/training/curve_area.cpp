#include "layers/training/curve_area.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace plimsoll::layers {
namespace {

// What is counted at a threshold.
struct Counts {
  double true_positives = 0;
  double false_positives = 0;
};

double ratio(double a, double b) { return b == 0 ? 0.0 : a / b; }

std::vector<Counts> counts_by_threshold(std::span<const float> counts) {
  const size_t buckets = counts.size() / 2;
  std::vector<Counts> result(buckets);
  Counts so_far;
  for (size_t i = buckets; i-- > 0;) {
    so_far.true_positives += static_cast<double>(counts[i]);
    so_far.false_positives += static_cast<double>(counts[buckets + i]);
    result[i] = so_far;
  }
  return result;
}

// Precision lies between two thresholds as hits and false alarms do: ∫ precision d(hits).
double interpolated_precision(const std::vector<Counts>& at) {
  double area = 0;
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    const double hits = at[i].true_positives - at[i + 1].true_positives;
    const double before = at[i].true_positives + at[i].false_positives;
    const double after = at[i + 1].true_positives + at[i + 1].false_positives;
    const double slope = ratio(hits, std::max(before - after, 0.0));
    const double intercept = at[i + 1].true_positives - slope * after;
    const double widths = before > 0 && after > 0 ? before / after : 1.0;
    area += slope * (hits + intercept * std::log(widths));
  }
  return ratio(area, at.empty() ? 0.0 : at[0].true_positives);
}

}  // namespace

double curve_area(std::span<const float> counts, std::string_view curve,
                  std::string_view summation) {
  const std::vector<Counts> at = counts_by_threshold(counts);
  if (at.empty()) return 0;
  const bool precision = curve == "PR";
  if (precision && summation == "interpolation") return interpolated_precision(at);
  const auto hit_rate = [&](const Counts& c) {
    return ratio(c.true_positives, at[0].true_positives);
  };
  const auto x = [&](const Counts& c) {
    return precision ? hit_rate(c) : ratio(c.false_positives, at[0].false_positives);
  };
  const auto y = [&](const Counts& c) {
    return precision ? ratio(c.true_positives, c.true_positives + c.false_positives) : hit_rate(c);
  };
  double area = 0;
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    const double a = y(at[i]);
    const double b = y(at[i + 1]);
    const double height = summation == "minoring"   ? std::min(a, b)
                          : summation == "majoring" ? std::max(a, b)
                                                    : (a + b) / 2;
    area += (x(at[i]) - x(at[i + 1])) * height;
  }
  return area;
}

}  // namespace plimsoll::layers
