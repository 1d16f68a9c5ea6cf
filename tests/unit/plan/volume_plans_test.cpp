#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "toys/toy_plans.h"

// Loops over the depth and the rows of volumes: axes that are neither the batch nor of images.

namespace plimsoll::plan {
namespace {

class VolumePlans : public ::testing::Test {
 protected:
  VolumePlans() {
    catalog_.blocks = {{"a", {1, 2, 2, 3}}, {"b", {1, 2, 1}}, {"c", {2, 1}},
                       {"d", {2, 1, 0, 0}}, {"s", {2, 1}},    {"t", {2, 2}}};
  }

  Validation check(std::string_view plan) {
    plan_ = toys::parse_plan(plan, programs_, catalog_);
    return validate(plan_, programs_, catalog_);
  }
  // With one part of the text replaced.
  Validation check(std::string_view from, std::string_view to) {
    std::string text(toys::kVolumePlan);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return check(text.replace(at, from.size(), to));
  }
  Bytes bytes(size_t instance) const { return plan_.programs[0].instances[instance].bytes; }

  graph::ProgramSet programs_ = toys::parse_programs(toys::kVolumeProgram);
  toys::ToyCatalog catalog_;
  Plan plan_;
};

TEST_F(VolumePlans, TurnsHoldWhatTheirAxesSay) {
  const Validation result = check(toys::kVolumePlan);
  ASSERT_TRUE(result.ok()) << result.message;
  EXPECT_EQ(bytes(1), Bytes(4 * 2 * 2 * 6 * 3));   // two slabs
  EXPECT_EQ(bytes(3), Bytes(4 * 2 * 4 * 4 * 3));   // with a halo in depth and rows
  EXPECT_EQ(bytes(4), Bytes(4 * 2 * 2 * 2 * 3));   // an iteration of both loops
  EXPECT_EQ(bytes(6), Bytes(4 * 2 * 2 * 6 * 3));   // two slabs under one
  EXPECT_EQ(bytes(9), Bytes(4 * 2 * 6 * 3));       // the sum
  EXPECT_EQ(bytes(10), Bytes(4 * 2 * 4 * 6 * 3));  // four slabs
}

TEST_F(VolumePlans, HaveTextBothWays) {
  ASSERT_TRUE(check(toys::kVolumePlan).ok());
  const std::string text = print(plan_, programs_);
  EXPECT_NE(text.find("begin t1 %2 -> %3 depth=1:1:1:1 rows=2:1:1:1\n"), std::string::npos) << text;
  EXPECT_EQ(parse(text, programs_), plan_);
  try {
    (void)check("depth=1:1:1:1 rows", "time=1:1:1:1 rows");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("expected the axis of a loop around the transfer (depth, rows), received "
                        "\"time\""),
              std::string::npos)
        << error.what();
  }
}

TEST_F(VolumePlans, AHaloThatIsMissingIsNotComputed) {
  EXPECT_EQ(check("depth=1:1:1:1 rows=2:1:1:1", "depth=1:1:0:1 rows=2:1:1:1").verdict,
            Verdict::kNotComputed);
  EXPECT_EQ(check("depth=1:1:1:1 rows=2:1:1:1", "depth=1:1:1:1 rows=2:1:1:0").verdict,
            Verdict::kNotComputed);
  EXPECT_EQ(check("depth=1:1:1:1 rows=2:1:1:1", "depth=1:1:1:1").verdict, Verdict::kNotComputed);
  EXPECT_EQ(check("depth=1:2:0:1", "depth=1:2:0:0").verdict, Verdict::kNotComputed);
}

TEST_F(VolumePlans, AxesAndDimensionsComeOnceInATransfer) {
  EXPECT_EQ(check("depth=1:1:1:1 rows", "rows=1:1:1:1 rows").verdict, Verdict::kBadReference);
  EXPECT_EQ(check("depth=1:1:1:1 rows=2", "depth=1:1:1:1 rows=1").verdict, Verdict::kBadReference);
  EXPECT_EQ(check("rows=2:1:1:1", "rows=4:1:1:1").verdict, Verdict::kBadReference);
  ASSERT_TRUE(check(toys::kVolumePlan).ok());
  auto& begin = std::get<BeginTransfer>(plan_.programs[0].loops[2].items[0]);
  begin.rows[0].axis = "time";
  EXPECT_EQ(validate(plan_, programs_, catalog_).verdict, Verdict::kBadReference);
}

TEST_F(VolumePlans, SlicesAreMultiplesOfBlocks) {
  EXPECT_EQ(check("loop L0 depth extent=8 slice=2", "loop L0 depth extent=8 slice=3").verdict,
            Verdict::kBadSlice);
  EXPECT_EQ(check("loop L3 depth extent=4", "loop L3 depth extent=8").verdict, Verdict::kBadSlice);
}

TEST_F(VolumePlans, ASumOverTheDepthIsReadWhenItIsWhole) {
  EXPECT_EQ(
      check("  call s (%8) -> (%9)\nend\noutput %9\n", "  call s (%8) -> (%9)\n  output %9\nend\n")
          .verdict,
      Verdict::kIncompleteSum);
}

// Samples before slabs, whatever the loop's axis is.
TEST_F(VolumePlans, ASumTakesItsBlocksInOrder) {
  catalog_.blocks["t"] = {1, 2};
  EXPECT_TRUE(check(toys::kVolumePlan).ok());
  programs_ = toys::parse_programs(R"(program train batch 2
input %x float32 (B, 4)
node s grand_total (%x) -> (%s float32 ()) {} forward
output %s
)");
  constexpr std::string_view kPlan = R"(program train batch=2
instance %0 x
instance %1 s
feed %0
loop L0 units extent=4 slice=2
  call s (%0) -> (%1)
end
output %1
)";
  catalog_.blocks = {{"s", {2, 2}}};
  EXPECT_TRUE(check(kPlan).ok());
  catalog_.blocks = {{"s", {1, 2}}};
  EXPECT_EQ(check(kPlan).verdict, Verdict::kBlockOrder);
}

TEST_F(VolumePlans, WindowsAndTheirMakersDoNotShareTurns) {
  programs_ = toys::parse_programs(R"(program train batch 2
input %x float32 (B, 8, 3)
node a lift (%x) -> (%a float32 (B, 8, 3)) {factor=2.0} forward
node b blur (%a) -> (%b float32 (B, 8, 3)) {} forward
output %b
)");
  catalog_.blocks = {{"a", {2, 2, 0}}, {"b", {2, 2, 0}}};
  const Validation result = check(R"(program train batch=2
instance %0 x
instance %1 a scope=root
instance %2 b scope=root
feed %0
loop L0 depth extent=8 slice=2
  call a (%0) -> (%1)
  call b (%1) -> (%2)
end
output %2
)");
  EXPECT_EQ(result.verdict, Verdict::kNotComputed) << result.message;
}

TEST_F(VolumePlans, WhatDoesNotHaveTheAxisIsDoneOnce) {
  programs_ = toys::parse_programs(R"(program train batch 2
input %x float32 (B, 8)
node a scale (%x) -> (%a float32 (B, 8)) {factor=2.0} forward
output %a
)");
  catalog_.blocks = {};
  const Validation result = check(R"(program train batch=2
instance %0 x
instance %1 a scope=root
feed %0
loop L0 depth extent=8 slice=2
  call a (%0) -> (%1)
end
output %1
)");
  EXPECT_EQ(result.verdict, Verdict::kRepeatedNode) << result.message;
}

// A sink is told of samples and of nothing else.
TEST_F(VolumePlans, OutputsAreHandedOutInSamples) {
  const Validation result = check("  call t (%10) -> (%11)\nend\noutput %11\n",
                                  "  call t (%10) -> (%11)\n  output %11\nend\n");
  EXPECT_EQ(result.verdict, Verdict::kNotCuttable) << result.message;
}

}  // namespace
}  // namespace plimsoll::plan
