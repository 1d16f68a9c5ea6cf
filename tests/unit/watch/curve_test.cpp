// The bounded curve: merged, but without losing a peak or a low.

#include "gtest/gtest.h"
#include "watch/measure/sample.h"

namespace plimsoll::watch {
namespace {

TEST(Curve, KeepsShortRunsWhole) {
  Curve curve;
  for (int i = 0; i < 100; ++i) {
    Sample sample;
    sample.seconds = i;
    sample.held = sample.held_low = i;
    curve.add(sample);
  }
  ASSERT_EQ(curve.samples().size(), 100u);
  EXPECT_EQ(curve.samples()[57].held, 57);
}

TEST(Curve, StaysBoundedAndLosesNoExtreme) {
  Curve curve;
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    Sample sample;
    sample.seconds = i;
    sample.held = sample.held_low = i == 70'001 ? 5000 : i == 30'003 ? 1 : 1000;
    sample.cpu_seconds = i * 0.5;
    curve.add(sample);
  }
  const std::vector<Sample>& samples = curve.samples();
  EXPECT_LE(samples.size(), Curve::kMostSamples);
  EXPECT_GE(samples.size(), Curve::kMostSamples / 2 - 1);
  int64_t high = 0, low = 1'000'000;
  for (size_t i = 0; i < samples.size(); ++i) {
    high = std::max(high, samples[i].held);
    low = std::min(low, samples[i].held_low);
    if (i > 0) {
      EXPECT_GT(samples[i].seconds, samples[i - 1].seconds);
    }
  }
  EXPECT_EQ(high, 5000);
  EXPECT_EQ(low, 1);
  EXPECT_EQ(samples.back().seconds, kCount - 1);
  EXPECT_EQ(samples.back().cpu_seconds, (kCount - 1) * 0.5);
}

}  // namespace
}  // namespace plimsoll::watch
