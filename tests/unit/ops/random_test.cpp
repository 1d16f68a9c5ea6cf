// Dropout masks and initial values: pure functions of position, with the right distributions.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ops/dropout_mask.h"
#include "ops/training/random_fill.h"

namespace plimsoll::ops {
namespace {

// std::vector<bool> has no span.
struct Mask {
  explicit Mask(size_t n) : size(n), data(std::make_unique<bool[]>(n)) {}
  std::span<bool> span(size_t from, size_t to) { return {data.get() + from, to - from}; }
  size_t size;
  std::unique_ptr<bool[]> data;
};

TEST(DropoutMask, DoesNotDependOnHowTheBatchIsCut) {
  const Philox stream = dropout_stream(1, 2, 3);
  Mask whole(1000);
  fill_dropout_mask(stream, 0, 0.3f, whole.span(0, 1000));
  Mask parts(1000);
  for (size_t begin : {0, 1, 130, 517}) {
    const size_t end = begin == 0 ? 1 : begin == 1 ? 130 : begin == 130 ? 517 : 1000;
    fill_dropout_mask(stream, begin, 0.3f, parts.span(begin, end));
  }
  for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(whole.data[i], parts.data[i]) << i;
}

TEST(DropoutMask, KeepsTheShareItShould) {
  for (float rate : {0.1f, 0.5f, 0.9f}) {
    Mask mask(100000);
    fill_dropout_mask(dropout_stream(1, 0, 0), 0, rate, mask.span(0, mask.size));
    double kept = 0;
    for (size_t i = 0; i < mask.size; ++i) kept += mask.data[i] ? 1 : 0;
    EXPECT_NEAR(kept / 100000, 1 - rate, 0.005);
  }
}

TEST(DropoutMask, StepsSitesAndSeedsDiffer) {
  const auto same = [](const Philox& a, const Philox& b) {
    Mask x(1000);
    Mask y(1000);
    fill_dropout_mask(a, 0, 0.5f, x.span(0, 1000));
    fill_dropout_mask(b, 0, 0.5f, y.span(0, 1000));
    int equal = 0;
    for (size_t i = 0; i < 1000; ++i) equal += x.data[i] == y.data[i] ? 1 : 0;
    return equal;
  };
  const Philox stream = dropout_stream(1, 2, 3);
  EXPECT_EQ(same(stream, dropout_stream(1, 2, 3)), 1000);
  EXPECT_NEAR(same(stream, dropout_stream(2, 2, 3)), 500, 80);
  EXPECT_NEAR(same(stream, dropout_stream(1, 3, 3)), 500, 80);
  EXPECT_NEAR(same(stream, dropout_stream(1, 2, 4)), 500, 80);
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  double least = 1e9;
  double most = -1e9;
};

template <typename Draw>
Moments moments_of(Draw draw) {
  constexpr uint64_t kCount = 100000;
  Moments m;
  double squares = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = draw(i, kCount);
    m.mean += x / kCount;
    squares += x * x / kCount;
    m.least = std::min(m.least, x);
    m.most = std::max(m.most, x);
  }
  m.deviation = std::sqrt(squares - m.mean * m.mean);
  return m;
}

TEST(RandomFill, Distributions) {
  const Philox stream = initializer_stream(5, 6);
  const Moments uniform = moments_of(
      [&](uint64_t i, uint64_t) { return uniform_from_draw(stream.uniform(i), -1.0, 3.0); });
  EXPECT_NEAR(uniform.mean, 1.0, 0.02);
  EXPECT_NEAR(uniform.deviation, 4 / std::sqrt(12.0), 0.02);
  EXPECT_GE(uniform.least, -1.0);
  EXPECT_LT(uniform.most, 3.0);
  const Moments normal = moments_of(
      [&](uint64_t i, uint64_t) { return normal_from_draw(stream.normal(i), 1.0, 2.0); });
  EXPECT_NEAR(normal.mean, 1.0, 0.03);
  EXPECT_NEAR(normal.deviation, 2.0, 0.03);
  const Moments truncated = moments_of([&](uint64_t i, uint64_t n) {
    return truncated_normal_from_draw(stream, stream.normal(i), i, n, 1.0, 2.0);
  });
  EXPECT_NEAR(truncated.mean, 1.0, 0.03);
  // The standard deviation of a normal distribution cut at two deviations.
  EXPECT_NEAR(truncated.deviation, 2.0 * 0.87962566103423978, 0.03);
  EXPECT_GT(truncated.least, -3.0);
  EXPECT_LT(truncated.most, 5.0);
}

TEST(RandomFill, OrthonormalColumns) {
  constexpr int64_t kRows = 12;
  constexpr int64_t kColumns = 7;
  std::vector<double> q(kRows * kColumns);
  fill_orthonormal(initializer_stream(1, 1), kRows, kColumns, q.data());
  for (int64_t a = 0; a < kColumns; ++a) {
    for (int64_t b = 0; b < kColumns; ++b) {
      double dot = 0;
      for (int64_t r = 0; r < kRows; ++r) {
        dot += q[static_cast<size_t>(r * kColumns + a)] * q[static_cast<size_t>(r * kColumns + b)];
      }
      EXPECT_NEAR(dot, a == b ? 1.0 : 0.0, 1e-14);
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
