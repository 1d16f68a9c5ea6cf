// What a run is bound by, from made-up rates.

#include "watch/measure/bound.h"

#include <functional>
#include <vector>

#include "gtest/gtest.h"

namespace plimsoll::watch {
namespace {

// Sixty seconds, one sample each; `change` sets what differs at second i.
Bound bound_of(const std::function<void(Sample& sample, int second)>& change) {
  std::vector<Sample> samples;
  for (int i = 0; i <= 60; ++i) {
    Sample sample;
    sample.seconds = i;
    change(sample, i);
    samples.push_back(sample);
  }
  return find_bound(samples, 4);
}

TEST(Bound, BusyProcessorsAreComputing) {
  const Bound bound = bound_of([](Sample& s, int i) { s.cpu_seconds = 3.8 * i; });
  EXPECT_EQ(bound.by, BoundBy::kCompute);
  EXPECT_NEAR(bound.cpus_used, 3.8, 1e-9);
}

TEST(Bound, WaitingForADeviceIsReading) {
  const Bound bound = bound_of([](Sample& s, int i) {
    s.cpu_seconds = 0.4 * i;
    s.read_bytes = int64_t{80'000'000} * i;
    s.waiting = i % 2;
  });
  EXPECT_EQ(bound.by, BoundBy::kReading);
  EXPECT_NEAR(bound.read_bytes_per_second, 8e7, 1);
}

TEST(Bound, BusyWorkersAreDecoding) {
  const Bound bound = bound_of([](Sample& s, int i) {
    s.cpu_seconds = 3.5 * i;
    s.worker_cpu_seconds = 3.0 * i;
  });
  EXPECT_EQ(bound.by, BoundBy::kDecoding);
}

TEST(Bound, ABusyGpuIsTheGpu) {
  const Bound bound = bound_of([](Sample& s, int i) {
    s.cpu_seconds = 1.0 * i;
    s.gpu_busy = 0.95;
  });
  EXPECT_EQ(bound.by, BoundBy::kGpu);
}

TEST(Bound, PagesReadBackAreSwapping) {
  const Bound bound = bound_of([](Sample& s, int i) {
    s.cpu_seconds = 0.5 * i;
    s.major_faults = 2000 * i;
    s.swapped = int64_t{1} << 30;
  });
  EXPECT_EQ(bound.by, BoundBy::kSwapping);
}

TEST(Bound, IdleIsWaiting) {
  EXPECT_EQ(bound_of([](Sample& s, int i) { s.cpu_seconds = 0.01 * i; }).by, BoundBy::kWaiting);
}

TEST(Bound, PressureOfNeighboursIsNotReading) {
  const auto idle_under_pressure = [](Sample& s, int i) {
    s.cpu_seconds = 0.01 * i;
    s.io_pressure = 0.6 * i;
  };
  EXPECT_EQ(bound_of(idle_under_pressure).by, BoundBy::kWaiting);
  const Bound reads = bound_of([&](Sample& s, int i) {
    idle_under_pressure(s, i);
    s.read_bytes = int64_t{5'000'000} * i;
    s.waiting = i % 10 == 0;
  });
  EXPECT_EQ(reads.by, BoundBy::kReading);
}

TEST(Bound, WaitingWhileNothingIsReadIsNotReading) {
  const Bound bound = bound_of([](Sample& s, int i) {
    s.cpu_seconds = 0.05 * i;
    s.waiting = i % 2;
  });
  EXPECT_EQ(bound.by, BoundBy::kWaiting);
  ASSERT_EQ(bound.evidence.size(), 2u);
  EXPECT_NE(bound.evidence[1].find("none was read from"), std::string::npos);
}

TEST(Bound, TheTimeBeforeTheFirstStepDoesNotCount) {
  const Bound bound = bound_of([](Sample& s, int i) {
    s.steps = i >= 30 ? i - 29 : 0;
    s.cpu_seconds = i < 30 ? 0 : 4.0 * (i - 30);
  });
  EXPECT_EQ(bound.by, BoundBy::kCompute);
  EXPECT_NEAR(bound.cpus_used, 4, 1e-9);
}

TEST(Bound, AShortRunIsNotJudged) { EXPECT_EQ(find_bound({}, 4).by, BoundBy::kUnknown); }

}  // namespace
}  // namespace plimsoll::watch
