#include "plan/tree/text.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "plan/search/planner.h"
#include "plan/tree/complete.h"
#include "toys/toy_plans.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

using testing::toy_network;
using testing::toy_programs;

std::string error_of(std::string_view text, const graph::ProgramSet& programs) {
  try {
    (void)parse(text, programs);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(PlanTextTest, RoundTripsPlansOfThePlanner) {
  const graph::ProgramSet programs = toy_programs({.batch = 19}, 3);
  toys::ToyCatalog catalog;
  catalog.blocks["h1"] = {4, graph::kWholeAxis};
  const PlanOutcome outcome = make_plan(programs, catalog, {});
  ASSERT_NE(outcome.fits(), nullptr);
  const Plan& plan = outcome.fits()->plan;
  const std::string text = print(plan, programs);
  EXPECT_EQ(parse(text, programs), plan);
  EXPECT_EQ(print(parse(text, programs), programs), text);
}

TEST(PlanTextTest, RoundTripsEverythingThatAPlanCanHold) {
  const graph::ProgramSet programs = toys::parse_programs(
      "program \"two words\" batch 4\n"
      "input %x float32 (B, 4)\n"
      "state %\"a b\" float32 (4) weight\n"
      "node \"shift # one\" shift (%x, %\"a b\") -> (%\"y \\\"1\\\"\" float32 (B, 4)) {} forward\n"
      "node gate gate (%x, %\"y \\\"1\\\"\") -> (%g float32 (B, 4)) {} forward\n");
  Plan plan;
  plan.kernel_set = "toy/t1;batch<=4 and more";
  plan.block_set = 2;
  plan.parts = 3;
  plan.fingerprint = 0xfedcba9876543210u;
  plan.states = {{"a b", 64_B, 16_B}};
  plan.state_bytes = 128_B;
  plan.arena_bytes = 4096_B;
  plan.spill_bytes = 8192_B;
  ProgramPlan program;
  program.name = "two words";
  program.batch = 4;
  program.blocks = {{2}, {graph::kWholeAxis}};
  program.arena_bytes = 1024_B;
  program.instances = {
      {graph::ValueId(0), "", 0, Space::kArena, LoopId(0), 0_B, 32_B, {}},
      {graph::ValueId(1), "", 0, Space::kState, LoopId(), 64_B, 16_B, {}},
      {graph::ValueId(2), "", 1, Space::kArena, LoopId(1), 128_B, 32_B, InstanceId(0)},
      {graph::ValueId(2), "positive_bits", 1, Space::kSpill, kAutoScope, 4096_B, 4_B, {}}};
  program.loops = {{"batch", 4, 2, {}}, {"row s", 0, 1, {}}};
  program.loops[0].items = {Feed{InstanceId(0)}, Enter{LoopId(1)}, WaitTransfer{7}};
  program.loops[1].items = {Call{graph::NodeId(0),
                                 1,
                                 {InstanceId(0), InstanceId(1)},
                                 {InstanceId(2)},
                                 {{LoopId(1), "batch"}},
                                 256_B,
                                 512_B},
                            Encode{InstanceId(2), InstanceId(3)}};
  program.items = {
      Enter{LoopId(0)}, BeginTransfer{7, InstanceId(3), InstanceId(3)},
      Call{graph::NodeId(1), 0, {InstanceId(0), InstanceId(3)}, {InstanceId()}, {}, 0_B, 0_B},
      Output{InstanceId(2)}};
  plan.programs.push_back(program);
  EXPECT_EQ(parse(print(plan, programs), programs), plan) << print(plan, programs);
}

TEST(PlanTextTest, LeavesWhatIsMissingToBeCompleted) {
  const graph::ProgramSet programs = toys::parse_programs(toys::kTwoPhaseProgram);
  const Plan plan = parse(toys::kTwoPhasePlan, programs);
  EXPECT_EQ(plan.programs[0].instances[0].scope, kAutoScope);
  EXPECT_EQ(plan.programs[0].instances[0].bytes, 0_B);
  EXPECT_EQ(plan.programs[0].batch, 8);
  EXPECT_TRUE(plan.kernel_set.empty());
}

// The text of a golden file (golden_test.cpp) between one heading and the next.
std::string section_of(const std::string& path, std::string_view heading) {
  std::ifstream file(path);
  std::string text;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("== ")) {
      inside = line.substr(3) == heading;
    } else if (inside) {
      text += line + "\n";
    }
  }
  return text;
}

// Plans that were written with the words of before are the same plans.
TEST(PlanTextTest, ReadsOlderWords) {
  const std::string older = "golden/older_plans/nested_loops.txt";
  const graph::ProgramSet programs = toys::parse_programs(section_of(older, "graph"));
  const auto plan_of = [&](const std::string& path) {
    const std::string answer = section_of(path, "answer");  // its first line says what was chosen
    return parse(answer.substr(answer.find('\n')), programs);
  };
  EXPECT_EQ(plan_of(older).programs[0].instances.size(), 8U);
  EXPECT_EQ(plan_of(older), plan_of("golden/plan/nested_loops.txt"));
}

TEST(PlanTextTest, ReadsTheWordsOfThePages) {
  const graph::ProgramSet programs = toys::parse_programs(toys::kTwoPhaseProgram);
  const auto with = [&](const std::string& field, const std::string& item) {
    return parse("program train\ninstance %0 x " + field + "\n" + item + " %0\n", programs);
  };
  EXPECT_EQ(with("scope=root", "output"), with("home=root", "drain"));
}

TEST(PlanTextTest, CommentsAndBlankLinesMeanNothing) {
  const graph::ProgramSet programs = toys::parse_programs(toys::kTwoPhaseProgram);
  const std::string text = "# by hand\n\n" + std::string(toys::kTwoPhasePlan) + "  # end\n";
  EXPECT_EQ(parse(text, programs), parse(toys::kTwoPhasePlan, programs));
}

TEST(PlanTextTest, ErrorsNameTheLineAndWhatWasExpected) {
  const graph::ProgramSet programs = toys::parse_programs(toys::kTwoPhaseProgram);
  const auto error = [&](std::string_view text) {
    return error_of("program train\n" + std::string(text), programs);
  };
  EXPECT_EQ(error("call hh (%0 %1) -> (%2)"),
            "plan text, line 2: expected the name of a node, received \"hh\". Did you mean \"h\"?");
  EXPECT_EQ(
      error("instance %0 x byts=3"),
      "plan text, line 2: expected one of the fields form, copy, space, scope, offset, bytes, "
      "in_place, received \"byts\". See docs/reference/plan-file.md.");
  EXPECT_EQ(error("\ncal h (%0) -> (%1)"),
            "plan text, line 3: expected a line of a plan, received \"cal\". Did you mean "
            "\"call\"?");
  EXPECT_EQ(error("feed 0"), "plan text, line 2: expected an instance such as %0, received \"0\".");
  EXPECT_EQ(error("feed %0 now"),
            "plan text, line 2: expected the end of the line, received \"now\".");
  EXPECT_EQ(error("block h unit=3"),
            "plan text, line 2: expected an axis of h, received \"unit\". Did you mean \"units\"?");
  EXPECT_EQ(error("instance %0 \"x"),
            "plan text, line 2: expected a closing quote, received the end of the line.");
  EXPECT_EQ(error("loop L1 batch slice=2"),
            "plan text, line 2: expected loop L0 (loops are numbered as they are entered), "
            "received L1.");
  EXPECT_EQ(error("loop L0 batch slice=2\n"),
            "plan text, line 2: expected \"end\" of loop L0, received the end of the program.");
  EXPECT_EQ(error("instance %1 x"),
            "plan text, line 2: expected each of the 1 instances to have one number below that, "
            "received %1.");
  EXPECT_EQ(error("instance %0 x\ninstance %0 x"),
            "plan text, line 3: expected each of the 2 instances to have one number below that, "
            "received %0 for the second time.");
  EXPECT_EQ(error("instance %0 x bytes=9999999999999999999"),
            "plan text, line 2: expected bytes as a number from 0 to 2^62, received "
            "\"9999999999999999999\".");
  EXPECT_EQ(error_of("feed %0", programs),
            "plan text, line 1: expected a line \"program NAME batch=N\" before \"feed\".");
  EXPECT_EQ(error_of("program trains", programs),
            "plan text, line 1: expected the name of a program, received \"trains\". Did you mean "
            "\"train\"?");
}

// Any prefix and any damaged byte gives an error or a plan, never anything else.
TEST(PlanTextTest, DamagedTextsAreRefusedOrRead) {
  const graph::ProgramSet programs = toy_network({.batch = 8, .widths = {4, 4}});
  const toys::ToyCatalog catalog;
  const std::string text = print(naive_plan(programs, catalog), programs);
  for (size_t at = 0; at < text.size(); ++at) {
    for (char c : {'\0', '"', '(', '%', '9', '\n'}) {
      std::string damaged = text;
      damaged[at] = c;
      try {
        (void)print(parse(damaged, programs), programs);
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::kData);
      }
    }
  }
}

TEST(PlanTextTest, DeepLoopsAreRefused) {
  const graph::ProgramSet programs = toy_network({});
  std::string text = "program train\n";
  for (int l = 0; l < 100; ++l) text += "loop L" + std::to_string(l) + " batch slice=1\n";
  EXPECT_NE(error_of(text, programs).find("at most 64 deep"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::plan
