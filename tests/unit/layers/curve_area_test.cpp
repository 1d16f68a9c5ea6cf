#include "layers/training/curve_area.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll::layers {
namespace {

// Labels 0, 0, 1, 1 with predictions 0, 0.5, 0.3, 0.9 at thresholds 0, 0.5, 1, as in the
// documentation of keras.metrics.AUC.
constexpr std::array<float, 6> kCounts = {1, 1, 0, 2, 0, 0};

double area(std::span<const float> counts, std::string_view curve, std::string_view summation) {
  return curve_area(counts_by_threshold(counts, false), curve, summation);
}

TEST(CurveAreaTest, OfHitsOverFalseAlarms) {
  EXPECT_DOUBLE_EQ(area(kCounts, "ROC", "interpolation"), 0.75);
  EXPECT_DOUBLE_EQ(area(kCounts, "ROC", "minoring"), 0.5);
  EXPECT_DOUBLE_EQ(area(kCounts, "ROC", "majoring"), 1.0);
}

TEST(CurveAreaTest, OfPrecisionOverHits) {
  // Precision 2/4, 1/1, none; hits 1, 1/2, 0.
  EXPECT_DOUBLE_EQ(area(kCounts, "PR", "minoring"), 0.25);
  EXPECT_DOUBLE_EQ(area(kCounts, "PR", "majoring"), 1.0);
  // Between the first two thresholds precision falls along hits: slope 1/3, intercept 2/3; in front
  // of the last one it is constant at 1.
  const double falling = 1.0 / 3 * (1 + 2.0 / 3 * 1.3862943611198906);
  EXPECT_NEAR(area(kCounts, "PR", "interpolation"), (falling + 1) / 2, 1e-12);
}

TEST(CurveAreaTest, ABucketBelowTheFirstThreshold) {
  constexpr std::array<float, 6> kThree = {3, 1, 2, 4, 0, 5};
  const std::vector<ThresholdCounts> at = counts_by_threshold(kThree, true);
  ASSERT_EQ(at.size(), 2u);
  EXPECT_EQ(at[0].true_positives, 3);
  EXPECT_EQ(at[0].false_negatives, 3);
  EXPECT_EQ(at[0].false_positives, 5);
  EXPECT_EQ(at[0].true_negatives, 4);
  EXPECT_EQ(at[1].true_positives, 2);
}

TEST(CurveAreaTest, OfNothingIsZero) {
  const std::array<float, 8> none{};
  for (std::string_view curve : kCurves) {
    for (std::string_view summation : kSummations) {
      EXPECT_EQ(area(none, curve, summation), 0) << curve << " " << summation;
    }
  }
  EXPECT_EQ(area({}, "ROC", "interpolation"), 0);
}

}  // namespace
}  // namespace plimsoll::layers
