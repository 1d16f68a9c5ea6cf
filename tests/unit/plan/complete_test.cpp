#include "plan/tree/complete.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "toys/toy_plans.h"

namespace plimsoll::plan {
namespace {

class CompleteTest : public ::testing::Test {
 protected:
  CompleteTest() : programs_(toys::parse_programs(toys::kTwoPhaseProgram)) {
    catalog_.blocks["h"] = {2, graph::kWholeAxis};
  }
  Plan parsed() const { return parse(toys::kTwoPhasePlan, programs_); }
  std::string error_of(const std::string& text) const {
    try {
      Plan plan = parse(text, programs_);
      complete_plan(plan, programs_, catalog_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.message();
    }
    return "nothing was thrown";
  }
  std::string changed(std::string_view what, std::string_view by) const {
    std::string text(toys::kTwoPhasePlan);
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos);
    return text.replace(at, what.size(), by);
  }

  graph::ProgramSet programs_;
  toys::ToyCatalog catalog_;
};

TEST_F(CompleteTest, MakesAHandWrittenPlanValid) {
  Plan plan = parsed();
  complete_plan(plan, programs_, catalog_);
  const Validation validation = validate(plan, programs_, catalog_);
  EXPECT_TRUE(validation.ok()) << validation.message;
  EXPECT_EQ(plan.kernel_set, "toy/t1");
  EXPECT_EQ(plan.states.size(), 2u);
  EXPECT_EQ(plan.state_bytes, 192_B);
  // The update lies in the memory of the weight.
  EXPECT_EQ(plan.programs[0].instances[12].space, Space::kState);
  EXPECT_EQ(plan.programs[0].instances[12].offset, plan.states[0].offset);
  // Scratch of the largest block.
  EXPECT_EQ(std::get<Call>(plan.programs[0].loops[0].items[1]).scratch_bytes, 128_B);
}

TEST_F(CompleteTest, IsTheSameTheSecondTime) {
  Plan once = parsed();
  complete_plan(once, programs_, catalog_);
  Plan twice = once;
  complete_plan(twice, programs_, catalog_);
  EXPECT_EQ(once, twice);
}

TEST_F(CompleteTest, GapsAndMemoryOfOnesOwn) {
  Plan tight = parsed();
  complete_plan(tight, programs_, catalog_);
  Plan roomy = parsed();
  complete_plan(roomy, programs_, catalog_, {.gap = 64_B});
  Plan apart = parsed();
  complete_plan(apart, programs_, catalog_, {.share_memory = false});
  EXPECT_LT(tight.arena_bytes, roomy.arena_bytes);
  EXPECT_LT(tight.arena_bytes, apart.arena_bytes);
  EXPECT_TRUE(validate(roomy, programs_, catalog_).ok());
  EXPECT_TRUE(validate(apart, programs_, catalog_).ok());
}

TEST_F(CompleteTest, GivenScopesStay) {
  Plan plan = parse(changed("instance %2 h\n", "instance %2 h scope=root\n"), programs_);
  complete_plan(plan, programs_, catalog_);
  EXPECT_FALSE(plan.programs[0].instances[2].scope.valid());
  EXPECT_EQ(plan.programs[0].instances[2].bytes, Bytes(8 * 6 * 4));
}

TEST_F(CompleteTest, SpillInstancesGetPlacesInTheFile) {
  std::string text = changed("instance %12 w2 in_place=%1\n",
                             "instance %12 w2 in_place=%1\n"
                             "instance %13 r space=spill\n"
                             "instance %14 r copy=1\n");
  const std::string_view call = "  call z (%6 %7) -> (%9)\n";
  const size_t loop = text.find("call k (%3) -> (_)\n");
  text.insert(loop, "begin t0 %6 -> %13\nwait t0\n");
  text.replace(text.find(call), call.size(),
               "  begin t1 %13 -> %14\n  wait t1\n  call z (%14 %7) -> (%9)\n");
  Plan plan = parse(text, programs_);
  complete_plan(plan, programs_, catalog_);
  const Validation validation = validate(plan, programs_, catalog_);
  EXPECT_TRUE(validation.ok()) << validation.message;
  EXPECT_EQ(plan.spill_bytes, kSpillAlignment);
  EXPECT_EQ(plan.programs[0].instances[14].scope, LoopId(1));
  EXPECT_EQ(plan.programs[0].instances[14].bytes, Bytes(4 * 6 * 4));
}

TEST_F(CompleteTest, RefusesBrokenStructure) {
  EXPECT_EQ(error_of(changed("call y (%2 %3)", "call y (%2)")),
            "plan, program train, call y: expected 2 inputs and 1 outputs, received 1 and 1.");
  EXPECT_EQ(error_of(changed("call y (%2 %3)", "call y (%3 %2)")),
            "plan, program train, call y: expected an instance of h, received %3, which is one of "
            "t.");
  EXPECT_EQ(
      error_of(changed("output %9", "output %99")),
      "plan, program train, output: expected an instance, received %99, which does not exist. "
      "Declare it.");
  EXPECT_EQ(error_of(changed("feed %0", "feed %2")),
            "plan, program train, feed: expected an input of the program, received h.");
  EXPECT_EQ(error_of("plan kernel_set=toy/t2\n" + std::string(toys::kTwoPhasePlan)),
            "plan: expected kernel set toy/t1, received toy/t2.");
  EXPECT_EQ(error_of(""), "plan: expected 1 programs, received 0.");
  EXPECT_EQ(error_of(changed("loop L0 batch extent=8 slice=4", "loop L0 batch slice=0")),
            "plan, program train, loop L0: expected a slice of at least 1, received 0.");
  EXPECT_EQ(error_of(changed("loop L0 batch extent=8", "loop L0 rows")),
            "plan, program train, loop L0: expected its extent, or a call inside that has the axis "
            "rows.");
  EXPECT_EQ(error_of(changed("instance %6 r", "instance %6 r scope=L9")),
            "plan, program train, instance %6: expected its value, scope and in_place to exist, "
            "received one that does not.");
}

}  // namespace
}  // namespace plimsoll::plan
