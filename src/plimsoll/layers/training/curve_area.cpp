#include "layers/training/curve_area.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace plimsoll::layers {
namespace {

// Precision lies between two thresholds as hits and false alarms do: ∫ precision d(hits).
double interpolated_precision(std::span<const ThresholdCounts> at) {
  double area = 0;
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    const double hits = at[i].true_positives - at[i + 1].true_positives;
    const double before = at[i].true_positives + at[i].false_positives;
    const double after = at[i + 1].true_positives + at[i + 1].false_positives;
    const double slope = share(hits, std::max(before - after, 0.0));
    const double intercept = at[i + 1].true_positives - slope * after;
    const double widths = before > 0 && after > 0 ? before / after : 1.0;
    area += slope * (hits + intercept * std::log(widths));
  }
  return share(area, at[0].true_positives + at[0].false_negatives);
}

// What one threshold is on the curve.
struct Point {
  double x = 0;
  double y = 0;
};

Point point_of(const ThresholdCounts& c, std::string_view curve) {
  const double positives = c.true_positives + c.false_negatives;
  const double negatives = c.true_negatives + c.false_positives;
  const double recall = share(c.true_positives, positives);
  if (curve == "ROC") return {share(c.false_positives, negatives), recall};
  if (curve == "PR") return {recall, share(c.true_positives, c.true_positives + c.false_positives)};
  if (c.true_positives == 0) return {0, 1};
  const double scale = share(positives, negatives);
  return {std::max(1 - scale * c.false_negatives / c.true_positives, 0.0),
          1 - scale * c.false_positives / c.true_positives};
}

}  // namespace

double share(double a, double b) { return b == 0 ? 0.0 : a / b; }

std::vector<ThresholdCounts> counts_by_threshold(std::span<const float> counts, bool below) {
  const size_t buckets = counts.size() / 2;
  const size_t first = below ? 1 : 0;
  double positives = 0;
  double negatives = 0;
  for (size_t i = 0; i < buckets; ++i) {
    positives += static_cast<double>(counts[i]);
    negatives += static_cast<double>(counts[buckets + i]);
  }
  std::vector<ThresholdCounts> result(buckets < first ? 0 : buckets - first);
  ThresholdCounts so_far;
  for (size_t i = result.size(); i-- > 0;) {
    so_far.true_positives += static_cast<double>(counts[i + first]);
    so_far.false_positives += static_cast<double>(counts[buckets + i + first]);
    so_far.true_negatives = negatives - so_far.false_positives;
    so_far.false_negatives = positives - so_far.true_positives;
    result[i] = so_far;
  }
  return result;
}

double curve_area(std::span<const ThresholdCounts> at, std::string_view curve,
                  std::string_view summation) {
  if (at.empty()) return 0;
  if (curve == "PR" && summation == "interpolation") return interpolated_precision(at);
  double area = 0;
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    const Point a = point_of(at[i], curve);
    const Point b = point_of(at[i + 1], curve);
    const double height = summation == "minoring"   ? std::min(a.y, b.y)
                          : summation == "majoring" ? std::max(a.y, b.y)
                                                    : (a.y + b.y) / 2;
    area += (a.x - b.x) * height;
  }
  return area;
}

}  // namespace plimsoll::layers
