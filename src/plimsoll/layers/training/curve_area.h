#pragma once

// What a classifier hits and misses by threshold, and the area under a curve of it, as
// keras.metrics.AUC computes it.
//
// The input is a histogram of predictions by thresholds that rise, positives and negatives apart:
// bucket i holds the predictions above threshold i and not above threshold i + 1. What counts at a
// threshold is the sum of the buckets from it on.

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll::layers {

// Names that Keras knows; the first is its default.
inline constexpr std::array<std::string_view, 3> kCurves = {"ROC", "PR", "PRGAIN"};
inline constexpr std::array<std::string_view, 3> kSummations = {"interpolation", "minoring",
                                                                "majoring"};

struct ThresholdCounts {
  double true_positives = 0;
  double false_positives = 0;
  double true_negatives = 0;
  double false_negatives = 0;
};

// `counts` holds the positives of each bucket, then the negatives. `below`: the first bucket is of
// predictions that are not above the first threshold, which is that of the second.
std::vector<ThresholdCounts> counts_by_threshold(std::span<const float> counts, bool below);

// a / b; 0 where b is 0.
double share(double a, double b);

// 0 where nothing was counted.
// Source: keras.src.metrics.confusion_metrics.AUC; PR by interpolation follows Davis and Goadrich,
// "The relationship between Precision-Recall and ROC curves" (2006).
double curve_area(std::span<const ThresholdCounts> at, std::string_view curve,
                  std::string_view summation);

}  // namespace plimsoll::layers
