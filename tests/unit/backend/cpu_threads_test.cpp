#include "backend/cpu/threads.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <limits>
#include <vector>

#include "backend/cpu/node_facts.h"

namespace plimsoll::backend::cpu {
namespace {

TEST(Parts, CoverEverythingOnceInOrder) {
  for (int64_t count : {0, 1, 15, 16, 17, 1000}) {
    for (int parts : {1, 2, 3, 7}) {
      int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const Range range = part_of(count, 16, part, parts);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.begin, range.end);
        EXPECT_TRUE(range.end % 16 == 0 || range.end == count);
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Parts, SmallWorkIsOnePart) {
  EXPECT_EQ(parts_for(1000, 8), 1);
  EXPECT_EQ(parts_for(1 << 20, 8), 8);
}

TEST(Parts, EachRunsOnceWhateverTheTeam) {
  for (int parts : {1, 2, 5}) {
    std::vector<int> runs(static_cast<size_t>(parts), 0);
    for_each_part(parts, [&](int part) { ++runs[static_cast<size_t>(part)]; });
    for (int count : runs) EXPECT_EQ(count, 1);
  }
}

// The product of two normal numbers that is a denormal, at run time.
float denormal_product() {
  volatile float small = std::numeric_limits<float>::min();
  volatile float half = 0.5f;
  return small * half;
}

TEST(Denormals, AreZeroInEveryThreadAndOnlyInside) {
  ASSERT_GT(denormal_product(), 0.0f);
  {
    const FlushDenormals flush;
    EXPECT_EQ(denormal_product(), 0.0f);
    std::array<float, 4> products{};
    for_each_part(4, [&](int part) { products[static_cast<size_t>(part)] = denormal_product(); });
    for (float product : products) EXPECT_EQ(product, 0.0f);
    const KeepDenormals keep;
    EXPECT_GT(denormal_product(), 0.0f);
  }
  EXPECT_GT(denormal_product(), 0.0f);
}

TEST(Team, HasThatManyFlushingThreadsAndLeavesTheHostsNumber) {
  const int before = omp_get_max_threads();
  for (int threads : {2, 1, 3, 2}) {
    const TeamScope team(threads);
    EXPECT_EQ(omp_get_max_threads(), threads);
    int flushing = 0;
#pragma omp parallel reduction(+ : flushing)
    flushing += denormal_product() == 0.0f ? 1 : 0;
    EXPECT_EQ(flushing, threads);
  }
  EXPECT_EQ(omp_get_max_threads(), before);
}

TEST(Dense, RowMajorWithoutGaps) {
  const std::vector<int64_t> dims = {3, 4, 5};
  EXPECT_TRUE(is_dense(dims, std::vector<int64_t>{20, 5, 1}));
  EXPECT_FALSE(is_dense(dims, std::vector<int64_t>{40, 5, 1}));
  EXPECT_FALSE(is_dense(dims, std::vector<int64_t>{20, 6, 1}));
  EXPECT_TRUE(is_dense(std::vector<int64_t>{1, 4}, std::vector<int64_t>{99, 1}));
  EXPECT_TRUE(is_dense(std::vector<int64_t>{}, std::vector<int64_t>{}));
}

}  // namespace
}  // namespace plimsoll::backend::cpu
