#include "base/philox.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll {
namespace {

// Known answers of the Random123 library (tests/kat_vectors, philox4x32 10).
TEST(Philox, MatchesRandom123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  static_assert(philox4x32({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5);
}

TEST(Philox, FillsAnySliceAsOneByOne) {
  const Philox source(42, 7);
  for (uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1} << 34}) {
    for (size_t count : {0u, 1u, 5u, 64u, 67u, 300u, 1000u}) {
      std::vector<uint32_t> words(count);
      std::vector<float> uniform(count), normal(count);
      source.fill_words(first, words);
      source.fill_uniform(first, uniform);
      source.fill_normal(first, normal);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(words[i], source.word(first + i));
        ASSERT_EQ(uniform[i], source.uniform(first + i));
        ASSERT_EQ(normal[i], source.normal(first + i));
      }
    }
  }
}

TEST(Philox, SeedAndStreamBothMatter) {
  EXPECT_NE(Philox(1, 0).word(0), Philox(0, 1).word(0));
  EXPECT_NE(Philox(1, 0).word(0), Philox(uint64_t{1} << 32, 0).word(0));
  EXPECT_NE(Philox(0, 1).word(0), Philox(0, uint64_t{1} << 32).word(0));
  EXPECT_NE(Philox(5, 5).word64(0), Philox(5, 5).word64(1));
}

TEST(Philox, UniformIsInRangeAndFlat) {
  constexpr int kCount = 1 << 18;
  std::vector<float> values(kCount);
  Philox(1, 2).fill_uniform(0, values);
  std::array<int, 16> bins = {};
  for (float value : values) {
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
    ++bins[static_cast<size_t>(value * 16)];
  }
  for (int bin : bins) EXPECT_NEAR(bin, kCount / 16, 6 * 124);  // six standard deviations
  EXPECT_EQ(uniform_from(0xffffffff), 1.0f - 0x1.0p-24f);
  EXPECT_EQ(uniform_from(0), 0.0f);
}

TEST(Philox, NormalHasItsMoments) {
  constexpr int kCount = 1 << 18;
  std::vector<float> values(kCount);
  Philox(3, 4).fill_normal(0, values);
  double sum = 0, squares = 0, fourth = 0;
  for (float value : values) {
    const double square = static_cast<double>(value) * value;
    sum += value;
    squares += square;
    fourth += square * square;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.012);
  EXPECT_NEAR(squares / kCount, 1.0, 0.017);
  EXPECT_NEAR(fourth / kCount, 3.0, 0.12);
  EXPECT_TRUE(std::isfinite(normal_pair_from(0, 0)[0]));
}

TEST(Philox, BelowStaysBelow) {
  EXPECT_EQ(below(10, 0), 0u);
  EXPECT_EQ(below(10, UINT64_MAX), 9u);
  EXPECT_EQ(below(1, UINT64_MAX), 0u);
}

}  // namespace
}  // namespace plimsoll
