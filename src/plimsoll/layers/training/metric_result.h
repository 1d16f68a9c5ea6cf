#pragma once

// From what a metric has counted to the number that is told.
//
// Counting is additive over samples (metrics.h); what follows from the counts, once at the end of
// an epoch, is here. Some metrics tell a number for each threshold, class or output.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::layers {

enum class MetricRule : uint8_t {
  kMean,      // total / count
  kRootMean,  // the root of that
  kCurve,     // histogram → the area under `what`, by `how`
  kCounts,    // histogram → "true_positives", …, "precision" or "recall" at each threshold
  kBest,      // histogram → the best of "sensitivity", … where another is at least `value`
  kFScore,    // sums by class → F, with beta = `value`, averaged by `what`
  kR2,        // sums by output, number of values → R², aggregated by `what`
  kIou,       // pairs of classes → the mean over `classes` of intersection / union
};

struct MetricResult {
  MetricRule rule = MetricRule::kMean;
  std::string what{};
  std::string how{};  // of kBest: what is at least `value`
  double value = 0;
  bool below = false;                    // of histograms (curve_area.h)
  bool each = false;                     // histograms of columns, whose areas are averaged
  std::vector<double> column_weights{};  // empty: all alike
  std::vector<int64_t> classes{};
  int64_t columns = 1;  // of histograms of columns
  int64_t regressors = 0;
  bool grows = false;  // the more the better, as Keras has it of the metric's class
  friend bool operator==(const MetricResult&, const MetricResult&) = default;
};

// Whether Keras tells an array even of one number: it has one for each class or output.
bool tells_array(const MetricResult& result);

// `states`: what was counted, in the order of metric_parts(). One number, or one for each
// threshold, class or output.
std::vector<double> metric_values(const MetricResult& result,
                                  std::span<const std::vector<float>> states);

}  // namespace plimsoll::layers
