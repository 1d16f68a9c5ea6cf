#include <gtest/gtest.h>

#include "plan/validate/validator.h"
#include "toys/toy_plans.h"

// Axes other than the batch, sums over several axes, transfers, and the validator's own speed.

namespace plimsoll::plan {
namespace {

struct Case {
  graph::ProgramSet programs;
  toys::ToyCatalog catalog;
  Plan plan;
};

Validation check(Case& c, std::string_view program, std::string_view plan) {
  c.programs = toys::parse_programs(program);
  c.plan = toys::parse_plan(plan, c.programs, c.catalog);
  return validate(c.plan, c.programs, c.catalog);
}

constexpr std::string_view kUnits = R"(program train batch 8
input %x float32 (B, 4)
state %w float32 (4, 6) weight
node y lines (%x, %w) -> (%y float32 (B, 6)) {} forward
node s row_sum (%y) -> (%s float32 (B)) {} forward
node all grand_total (%y) -> (%all float32 ()) {} forward
output %s
output %all
)";

TEST(ValidatorAxes, UnitsInsideABatchSlice) {
  Case c;
  c.catalog.blocks = {{"y", {4, 2}}, {"s", {2, 2}}, {"all", {8, 0}}};
  const Validation result = check(c, kUnits, R"(program train batch=8
instance %0 x
instance %1 w
instance %2 y
instance %3 s
instance %4 all
instance %5 y copy=1
feed %0
loop L0 batch extent=8 slice=4
  loop L1 units extent=6 slice=2
    call y (%0 %1) -> (%2)
    call s (%2) -> (%3)
  end
  output %3
end
call y (%0 %1) -> (%5) clone=1
call all (%5) -> (%4)
output %4
)");
  EXPECT_TRUE(result.ok()) << result.message;
  // (4, 2) of %y live at once.
  EXPECT_EQ(c.plan.programs[0].instances[2].bytes, Bytes(4 * 2 * 4));
}

TEST(ValidatorAxes, BlocksOfASumOutOfOrder) {
  constexpr std::string_view kOrder = R"(program train batch=8
instance %0 x
instance %1 w
instance %2 y
instance %3 s
instance %4 all
feed %0
call y (%0 %1) -> (%2)
call s (%2) -> (%3)
output %3
OUTER
  INNER
    call all (%2) -> (%4)
  end
end
output %4
)";
  const auto with = [&](std::string outer, std::string inner) {
    std::string text(kOrder);
    text.replace(text.find("OUTER"), 5, outer);
    text.replace(text.find("INNER"), 5, inner);
    return text;
  };
  Case c;
  c.catalog.blocks = {{"all", {4, 2}}};
  Validation result =
      check(c, kUnits, with("loop L0 batch extent=8 slice=4", "loop L1 units extent=6 slice=2"));
  EXPECT_TRUE(result.ok()) << result.message;
  result =
      check(c, kUnits, with("loop L0 units extent=6 slice=2", "loop L1 batch extent=8 slice=4"));
  EXPECT_EQ(result.verdict, Verdict::kBlockOrder) << result.message;
  // One iteration of several batch blocks and a part of the units comes in another order, too.
  result =
      check(c, kUnits, with("loop L0 batch extent=8 slice=8", "loop L1 units extent=6 slice=2"));
  EXPECT_EQ(result.verdict, Verdict::kBlockOrder) << result.message;
}

TEST(ValidatorAxes, AFallingAxisIsNotCutByARisingLoop) {
  constexpr std::string_view kProgram = R"(program train batch 4
input %x float32 (B, 6)
node s backward_sum (%x) -> (%s float32 (B)) {} forward
output %s
)";
  Case c;
  c.catalog.blocks = {{"s", {4, 2}}};
  Validation result = check(c, kProgram, R"(program train batch=4
instance %0 x
instance %1 s
feed %0
call s (%0) -> (%1)
output %1
)");
  EXPECT_TRUE(result.ok()) << result.message;
  result = check(c, kProgram, R"(program train batch=4
instance %0 x
instance %1 s
feed %0
loop L0 time extent=6 slice=2
  call s (%0) -> (%1)
end
output %1
)");
  EXPECT_EQ(result.verdict, Verdict::kBlockOrder) << result.message;
}

constexpr std::string_view kWindow = R"(program train batch 2
input %x float32 (B, 8)
node a smooth (%x) -> (%a float32 (B, 8)) {} forward
node b smooth (%a) -> (%b float32 (B, 8)) {} forward
output %b
)";

TEST(ValidatorAxes, AWindowNeedsItsHalo) {
  Case c;
  c.catalog.blocks = {{"a", {1, 2}}, {"b", {1, 2}}};
  Validation result = check(c, kWindow, R"(program train batch=2
instance %0 x
instance %1 a
instance %2 b
feed %0
loop L0 rows extent=8 slice=4
  call a (%0) -> (%1)
end
loop L1 rows extent=8 slice=2
  call b (%1) -> (%2)
end
output %2
)");
  EXPECT_TRUE(result.ok()) << result.message;
  // In one loop, b needs a row that a computes in the next iteration only.
  result = check(c, kWindow, R"(program train batch=2
instance %0 x
instance %1 a scope=root
instance %2 b
feed %0
loop L0 rows extent=8 slice=4
  call a (%0) -> (%1)
  call b (%1) -> (%2)
end
output %2
)");
  EXPECT_EQ(result.verdict, Verdict::kNotComputed) << result.message;
}

TEST(ValidatorAxes, RowExactNodesMayBeCutAnywhere) {
  Case c;
  c.catalog.blocks = {{"a", {1, 4}}, {"b", {1, 4}}};
  constexpr std::string_view kPlan = R"(program train batch=2
instance %0 x
instance %1 a
instance %2 b
feed %0
loop L0 rows extent=8 slice=3
  call a (%0) -> (%1)
end
call b (%1) -> (%2)
output %2
)";
  EXPECT_EQ(check(c, kWindow, kPlan).verdict, Verdict::kBadSlice);
  c.catalog.row_exact_nodes = {"a"};
  const Validation result = check(c, kWindow, kPlan);
  EXPECT_TRUE(result.ok()) << result.message;
}

TEST(ValidatorAxes, WhatDeclaresNoAxisIsNotCut) {
  constexpr std::string_view kProgram = R"(program train batch 4
input %x float32 (B, 6)
node m mix (%x) -> (%m float32 (B, 6)) {} forward
output %m
)";
  Case c;
  const Validation result = check(c, kProgram, R"(program train batch=4
instance %0 x
instance %1 m
loop L0 batch extent=4 slice=2
  feed %0
  call m (%0) -> (%1)
end
output %1
)");
  EXPECT_EQ(result.verdict, Verdict::kNotCuttable) << result.message;
}

constexpr std::string_view kChain = R"(program train batch 4
input %x float32 (B, 16)
node a scale (%x) -> (%a float32 (B, 16)) {factor=2.0} forward
node b scale (%a) -> (%b float32 (B, 16)) {factor=3.0} forward
node c accumulate (%b, %a) -> (%c float32 (B, 16)) {} forward
output %c
)";
constexpr std::string_view kMoved = R"(program train batch=4
instance %0 x
instance %1 a
instance %2 a space=spill
instance %3 b
instance %4 a
instance %5 c
loop L0 batch extent=4 slice=2
  feed %0
  call a (%0) -> (%1)
  begin t0 %1 -> %2
  call b (%1) -> (%3)
  wait t0
end
loop L1 batch extent=4 slice=1
  begin t1 %2 -> %4
  wait t1
  call c (%3 %4) -> (%5)
  output %5
end
)";

TEST(ValidatorTransfers, MovedAndBack) {
  Case c;
  const Validation result = check(c, kChain, kMoved);
  EXPECT_TRUE(result.ok()) << result.message;
  EXPECT_EQ(c.plan.programs[0].instances[4].bytes, Bytes(64));
}

TEST(ValidatorTransfers, MissingWait) {
  Case c;
  (void)check(c, kChain, kMoved);
  std::vector<Item>& items = c.plan.programs[0].loops[1].items;
  const std::vector<Item> whole = items;
  items.erase(items.begin() + 1);
  Validation result = validate(c.plan, c.programs, c.catalog);
  EXPECT_EQ(result.verdict, Verdict::kMissingWait) << result.message;
  // Waited for, but after its use.
  items = whole;
  std::swap(items[1], items[2]);
  result = validate(c.plan, c.programs, c.catalog);
  EXPECT_EQ(result.verdict, Verdict::kMissingWait) << result.message;
  // A wait without its begin.
  items = whole;
  items.erase(items.begin());
  result = validate(c.plan, c.programs, c.catalog);
  EXPECT_EQ(result.verdict, Verdict::kMissingWait) << result.message;
}

TEST(ValidatorTransfers, SourceOverwrittenWhileItMoves) {
  std::string text(kMoved);
  text.replace(text.find("instance %3 b\n"), 14, "instance %3 b scope=L0 in_place=%1\n");
  const size_t loop = text.find("loop L1");
  text.replace(loop, std::string::npos, R"(loop L1 batch extent=4 slice=1
  feed %6
  call a (%6) -> (%7) clone=1
  call b (%7) -> (%8) clone=1
  begin t1 %2 -> %4
  wait t1
  call c (%8 %4) -> (%5)
  output %5
end
)");
  text.insert(text.find("loop L0"), "instance %6 x\ninstance %7 a copy=1\ninstance %8 b copy=1\n");
  Case c;
  const Validation result = check(c, kChain, text);
  EXPECT_EQ(result.verdict, Verdict::kMissingWait) << result.message;
}

TEST(ValidatorTransfers, OperandInTheFile) {
  Case c;
  (void)check(c, kChain, kMoved);
  std::get<Call>(c.plan.programs[0].loops[1].items[2]).inputs[1] = InstanceId(size_t{2});
  const Validation result = validate(c.plan, c.programs, c.catalog);
  EXPECT_EQ(result.verdict, Verdict::kBadReference) << result.message;
}

TEST(ValidatorTransfers, OverlapInTheFile) {
  Case c;
  (void)check(c, kChain, kMoved);
  c.plan.spill_bytes = Bytes(64);
  const Validation result = validate(c.plan, c.programs, c.catalog);
  EXPECT_EQ(result.verdict, Verdict::kPeak) << result.message;
}

TEST(ValidatorClones, RecomputedInsteadOfKept) {
  Case c;
  const Validation result = check(c, kChain, R"(program train batch=4
instance %0 x
instance %1 a
instance %2 b
instance %3 x
instance %4 a copy=1
instance %5 c
loop L0 batch extent=4 slice=2
  feed %0
  call a (%0) -> (%1)
  call b (%1) -> (%2)
end
loop L1 batch extent=4 slice=1
  feed %3
  call a (%3) -> (%4) clone=1
  call c (%2 %4) -> (%5)
  output %5
end
)");
  EXPECT_TRUE(result.ok()) << result.message;
}

// A chain of many nodes at batch 64 in slices of 1: 1,000 calls, 64 iterations.
TEST(ValidatorSpeed, ThousandsOfInstances) {
  std::string program = "program train batch 64\ninput %x float32 (B, 4)\n";
  std::string instances = "instance %0 x\n";
  std::string body = "  feed %0\n";
  for (int i = 1; i <= 2000; ++i) {
    const std::string name = "v" + std::to_string(i);
    const std::string from = i == 1 ? "x" : "v" + std::to_string(i - 1);
    program += "node " + name + " scale (%" + from + ") -> (%" + name +
               " float32 (B, 4)) {factor=1.5} forward\n";
    instances += "instance %" + std::to_string(i) + " " + name + "\n";
    body +=
        "  call " + name + " (%" + std::to_string(i - 1) + ") -> (%" + std::to_string(i) + ")\n";
  }
  program += "output %v2000\n";
  Case c;
  const Validation result =
      check(c, program,
            "program train batch=64\n" + instances + "loop L0 batch extent=64 slice=1\n" + body +
                "  output %2000\nend\n");
  EXPECT_TRUE(result.ok()) << result.message;
}

}  // namespace
}  // namespace plimsoll::plan
