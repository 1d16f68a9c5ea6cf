#pragma once

// The area under a curve of a classifier's hits, as keras.metrics.AUC computes it.
//
// The input is a histogram of predictions in (0, 1] by thresholds that lie evenly, positives and
// negatives apart: bucket i holds the predictions above threshold i and not above threshold i + 1.
// What counts at a threshold is the sum of the buckets from it on.

#include <array>
#include <span>
#include <string_view>

namespace plimsoll::layers {

// Names that Keras knows; the first is its default.
inline constexpr std::array<std::string_view, 2> kCurves = {"ROC", "PR"};
inline constexpr std::array<std::string_view, 3> kSummations = {"interpolation", "minoring",
                                                                "majoring"};

// `counts` holds the positives of each bucket, then the negatives. 0 where nothing was counted.
// Source: keras.src.metrics.confusion_metrics.AUC; PR by interpolation follows Davis and Goadrich,
// "The relationship between Precision-Recall and ROC curves" (2006).
double curve_area(std::span<const float> counts, std::string_view curve,
                  std::string_view summation);

}  // namespace plimsoll::layers
