#include "exec/poison.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/exec/toy_run.h"

// Plans that lie about places and sizes are caught while they run.

namespace plimsoll::exec {
namespace {

class PoisonTest : public ::testing::Test {
 protected:
  PoisonTest()
      : programs_(toys::parse_programs(toys::kTwoPhaseProgram)),
        plan_(toys::parse_plan(toys::kTwoPhasePlan, programs_, backend_.catalog(), Bytes(64))) {}

  std::string run() {
    try {
      run_plan(programs_, plan_, backend_, {.poison = true});
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInternal);
      return error.message();
    }
  }

  toys::ToyBackend backend_;
  graph::ProgramSet programs_;
  plan::Plan plan_;
};

TEST_F(PoisonTest, SilentWhereThePlanIsRight) { EXPECT_EQ(run(), ""); }

TEST_F(PoisonTest, ShiftedOffsetThatMeetsAnotherBuffer) {
  // Every arena instance moved onto each other one that lives at the same time, by one line.
  std::vector<plan::Instance>& instances = plan_.programs[0].instances;
  int wrong = 0;
  for (plan::Instance& moved : instances) {
    if (moved.space != plan::Space::kArena || moved.in_place.valid()) continue;
    const Bytes offset = moved.offset;
    for (const plan::Instance& other : instances) {
      if (&other == &moved || other.space != plan::Space::kArena) continue;
      moved.offset = other.offset + plan::kAlignment;
      if (moved.offset >= other.offset + other.bytes ||
          moved.offset + moved.bytes > plan_.programs[0].arena_bytes) {
        continue;
      }
      const plan::Validation valid = plan::validate(plan_, programs_, backend_.catalog());
      if (valid.verdict != plan::Verdict::kOverlap) continue;
      ++wrong;
      EXPECT_NE(run(), "") << valid.message;
    }
    moved.offset = offset;
  }
  EXPECT_GE(wrong, 5);
}

TEST_F(PoisonTest, UnderstatedScratch) {
  for (plan::Item& item : plan_.programs[0].loops[0].items) {
    auto* call = std::get_if<plan::Call>(&item);
    if (call != nullptr && call->scratch_bytes > Bytes(0)) call->scratch_bytes -= Bytes(1);
  }
  const std::string message = run();
  EXPECT_NE(message.find("call h"), std::string::npos) << message;
  EXPECT_NE(message.find("untouched"), std::string::npos) << message;
}

TEST_F(PoisonTest, InstanceThatIsTooSmall) {
  plan_.programs[0].instances[2].bytes -= Bytes(4);
  plan_.programs[0].instances[4].bytes -= Bytes(4);
  EXPECT_NE(run(), "");
}

}  // namespace
}  // namespace plimsoll::exec
