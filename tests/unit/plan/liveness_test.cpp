#include "plan/facts/liveness.h"

#include <gtest/gtest.h>

#include "plan/core/walk.h"
#include "plan/tree/text.h"
#include "toys/toy_plans.h"

namespace plimsoll::plan {
namespace {

// The loops, scopes and uses of one value after the other, on the picture of liveness.h.
class LivenessTest : public ::testing::Test {
 protected:
  void load(std::string_view plan) {
    programs_ = toys::parse_programs(
        "program train batch 8\n"
        "input %a float32 (B, 4)\n"
        "node b scale (%a) -> (%b float32 (B, 4)) {factor=2.0} forward\n"
        "node c scale (%b) -> (%c float32 (B, 4)) {factor=2.0} forward\n"
        "node d scale (%c) -> (%d float32 (B, 4)) {factor=2.0} forward\n"
        "output %d\n");
    plan_ = parse("program train\n" + std::string(plan), programs_);
  }
  ProgramPlan& program() { return plan_.programs[0]; }

  graph::ProgramSet programs_;
  Plan plan_;
};

constexpr std::string_view kLoop =
    "instance %0 a scope=root bytes=128\n"
    "instance %1 b scope=root bytes=128\n"
    "instance %2 c scope=L0 bytes=64\n"
    "instance %3 d scope=L0 bytes=64\n"
    "feed %0\n"                // 0
    "call b (%0) -> (%1)\n"    // 1
    "loop L0 batch slice=4\n"  // 2
    "  call c (%1) -> (%2)\n"  // 3
    "  call d (%2) -> (%3)\n"  // 4
    "  output %3\n"            // 5
    "end\n";                   // 6

TEST_F(LivenessTest, LivesFromFirstWriteToLastReadAndThroughLoopsBelowItsScope) {
  load(kLoop);
  EXPECT_EQ(find_lives(program()), (std::vector<Interval>{{0, 2}, {1, 7}, {3, 5}, {4, 6}}));
  EXPECT_EQ(number_root_items(program()), (std::vector<Interval>{{0, 1}, {1, 2}, {2, 7}}));
}

TEST_F(LivenessTest, WalksInTheSameNumbers) {
  load(kLoop);
  std::vector<std::pair<int64_t, LoopId>> calls;
  walk_items(program(), [&](const Item& item, int64_t number, LoopId around) {
    if (std::holds_alternative<Call>(item)) calls.emplace_back(number, around);
  });
  EXPECT_EQ(calls, (std::vector<std::pair<int64_t, LoopId>>{
                       {1, LoopId()}, {3, LoopId(0)}, {4, LoopId(0)}}));
}

TEST_F(LivenessTest, ScratchIsABufferDuringItsCall) {
  load(kLoop);
  std::get<Call>(program().loops[0].items[0]).scratch_bytes = 32_B;
  const std::vector<Buffer> buffers = find_buffers(program());
  ASSERT_EQ(buffers.size(), 5u);
  EXPECT_EQ(buffers[4], (Buffer{{3, 4}, 32_B, {}, 3}));
}

TEST_F(LivenessTest, InPlaceReuseMakesOneBuffer) {
  load(kLoop);
  program().instances[3].in_place = InstanceId(2);
  const std::vector<Buffer> buffers = find_buffers(program());
  ASSERT_EQ(buffers.size(), 3u);
  EXPECT_EQ(buffers[2], (Buffer{{3, 6}, 64_B, {InstanceId(2), InstanceId(3)}, -1}));
}

TEST_F(LivenessTest, BothEndsOfATransferLiveUntilTheWait) {
  load(
      "instance %0 a scope=root bytes=128\n"
      "instance %1 b scope=root bytes=128\n"
      "instance %2 b scope=root space=spill bytes=128\n"
      "instance %3 b scope=root copy=1 bytes=128\n"
      "instance %4 c scope=root bytes=128\n"
      "instance %5 d scope=root bytes=128\n"
      "feed %0\n"
      "call b (%0) -> (%1)\n"
      "begin t0 %1 -> %2\n"
      "feed %0\n"
      "wait t0\n"
      "begin t1 %2 -> %3\n"
      "wait t1\n"
      "call c (%3) -> (%4)\n"
      "call d (%4) -> (%5)\n");
  EXPECT_EQ(find_lives(program()),
            (std::vector<Interval>{{0, 4}, {1, 5}, {2, 7}, {5, 8}, {7, 9}, {8, 9}}));
  EXPECT_EQ(find_buffers(program(), Space::kSpill).size(), 1u);
  EXPECT_EQ(find_buffers(program()).size(), 5u);
}

TEST_F(LivenessTest, UsesInNestedLoopsCountAsUsesByTheLoopBelowTheScope) {
  load(
      "instance %0 a scope=L0 bytes=64\n"
      "instance %1 b scope=L1 bytes=32\n"
      "instance %2 c scope=L0 bytes=64\n"
      "instance %3 d scope=L0 bytes=64\n"
      "loop L0 batch slice=4\n"    // 0
      "  feed %0\n"                // 1
      "  loop L1 batch slice=2\n"  // 2
      "    call b (%0) -> (%1)\n"  // 3
      "    call c (%1) -> (%2)\n"  // 4
      "  end\n"                    // 5
      "  call d (%2) -> (%3)\n"    // 6
      "end\n");                    // 7
  EXPECT_EQ(find_lives(program()), (std::vector<Interval>{{1, 6}, {3, 5}, {2, 7}, {6, 7}}));
}

TEST_F(LivenessTest, LoadIsTheMostBytesAliveAtOnceWithinTheWindow) {
  const std::vector<Buffer> buffers = {{{0, 2}, 100_B, {InstanceId(0)}, -1},
                                       {{1, 4}, 64_B, {InstanceId(1)}, -1},
                                       {{4, 5}, 64_B, {InstanceId(2)}, -1}};
  int64_t when = -1;
  EXPECT_EQ(find_load(buffers, {0, 9}, &when), 192_B);
  EXPECT_EQ(when, 1);
  EXPECT_EQ(find_load(buffers, {2, 9}), 64_B);
  EXPECT_EQ(find_load(buffers, {7, 9}), 0_B);
}

}  // namespace
}  // namespace plimsoll::plan
