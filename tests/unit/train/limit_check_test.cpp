#include "train/limit_check.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace plimsoll::train {
namespace {

constexpr Bytes kHeld = 64_MiB;

// Pages that are taken, and given back when it goes.
class Pages {
 public:
  Pages()
      : memory_(::mmap(nullptr, kHeld.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0)) {
    std::memset(memory_, 1, kHeld.size());
  }
  ~Pages() { ::munmap(memory_, kHeld.size()); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

 private:
  void* memory_;
};

TEST(LimitCheck, FindsAPassedLimitOnce) {
  const Bytes limit = read_process_memory().peak() + 16_MiB;
  LimitCheck check(limit, 1_MiB, true);
  EXPECT_FALSE(check.look_closely());
  { const Pages pages; }
  EXPECT_TRUE(check.look());  // it is gone, and the kernel remembers
  EXPECT_FALSE(check.look_closely());
  EXPECT_TRUE(check.passed());
  EXPECT_GT(check.measured(), limit);
}

TEST(LimitCheck, LeavesOutWhatWasTakenBefore) {
  { const Pages pages; }
  const Bytes limit = read_process_memory().now() + 8_MiB;
  ASSERT_GT(process_memory_peak(), limit);
  LimitCheck lower(limit, 1_MiB, false);
  EXPECT_FALSE(lower.look_closely());
  LimitCheck whole(limit, 1_MiB, true);
  EXPECT_TRUE(whole.look_closely());
  const Pages pages;
  EXPECT_TRUE(lower.look_closely());
}

// What the kernel's mark may lie above the truth is not held against a run.
TEST(LimitCheck, LeavesOutTheUncertaintyOfTheMark) {
  const Bytes peak = read_process_memory().peak();
  const Bytes uncertain = peak_uncertainty();
  EXPECT_GE(uncertain, page_size() * 62);
  EXPECT_LE(uncertain, page_size() * 62 * 16);
  LimitCheck within(peak - Bytes(uncertain.count() / 2), 1_MiB, true);
  EXPECT_FALSE(within.look_closely());
  LimitCheck beyond(peak - uncertain * 2, 1_MiB, true);
  EXPECT_TRUE(beyond.look_closely());
}

TEST(LimitCheck, KnowsNoLimit) {
  LimitCheck check(std::nullopt, 1_MiB, true);
  EXPECT_FALSE(check.look());
  EXPECT_FALSE(check.look_closely());
}

}  // namespace
}  // namespace plimsoll::train
