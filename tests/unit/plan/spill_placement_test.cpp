#include "plan/tree/spill_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/core/walk.h"
#include "plan/facts/estimate.h"
#include "toys/toy_plans.h"

namespace plimsoll::plan {
namespace {

using Sets = std::vector<std::set<std::string>>;

// Two weights, of 16 and 8 KiB, and something else of each size that a step updates.
graph::ProgramSet make_programs(const std::string& role) {
  const std::string text = R"(
program train batch 8
input %x float32 (B, 64)
state %w float32 (64, 64) weight trainable layer=a
state %m float32 (64, 64) ROLE layer=a
state %v float32 (64, 32) weight trainable layer=b
state %n float32 (64, 32) ROLE layer=b
node h lines (%x, %w) -> (%h float32 (B, 64)) {} layer=a forward
node k lines (%h, %v) -> (%k float32 (B, 32)) {} layer=b forward
node loss grand_total (%k) -> (%loss float32 ()) {} loss
node g lines_grad (%x, %h) -> (%g float32 (64, 64)) {} layer=a backward
node f lines_grad (%h, %k) -> (%f float32 (64, 32)) {} layer=b backward
node w1 descend (%w, %g) -> (%w1 float32 (64, 64)) {} update
node m1 descend (%m, %g) -> (%m1 float32 (64, 64)) {} update
node v1 descend (%v, %f) -> (%v1 float32 (64, 32)) {} update
node n1 descend (%n, %f) -> (%n1 float32 (64, 32)) {} update
node write_w state_write (%w1) -> () {} writes=w update
node write_m state_write (%m1) -> () {} writes=m update
node write_v state_write (%v1) -> () {} writes=v update
node write_n state_write (%n1) -> () {} writes=n update
output %loss
)";
  std::string with_roles = text;
  for (size_t at = 0; (at = with_roles.find("ROLE", at)) != std::string::npos;) {
    with_roles.replace(at, 4, role);
  }
  return toys::parse_programs(with_roles);
}

TEST(SpillPlacement, SlotsGoBeforeWeights) {
  EXPECT_EQ(make_spill_placements(make_programs("slot"), Bytes()),
            (Sets{{"m"}, {"m", "n"}, {"m", "n", "w"}, {"m", "n", "v", "w"}}));
}

TEST(SpillPlacement, WeightsAloneGoByQuarters) {
  EXPECT_EQ(make_spill_placements(make_programs("weight"), Bytes()),
            (Sets{{"w"}, {"m", "w"}, {"m", "v", "w"}, {"m", "n", "v", "w"}}));
}

TEST(SpillPlacement, WhatIsSmallStays) {
  EXPECT_EQ(make_spill_placements(make_programs("slot"), 10_KiB), (Sets{{"m"}, {"m", "w"}}));
  EXPECT_EQ(make_spill_placements(make_programs("slot"), 1_MiB), Sets{});
}

TEST(SpillPlacement, AnIterationMovesItsOwnRows) {
  const graph::ProgramSet programs = toys::parse_programs(R"(
program train batch 8
input %x float32 (B, 64)
node y scale (%x) -> (%y float32 (B, 64)) {factor=0.5} forward
node z scale (%y) -> (%z float32 (B, 64)) {factor=2.0} forward
node a grand_total (%y) -> (%a float32 ()) {} loss
output %z
output %a
)");
  const toys::ToyCatalog catalog;
  // Whole in memory, for z, and whole in the file, for a.
  const Plan plan = toys::parse_plan(R"(program train batch=8
instance %0 x
instance %1 y
instance %2 y space=spill
instance %3 y
instance %4 z
instance %5 a
loop L0 batch extent=8 slice=2
  feed %0
  call y (%0) -> (%1)
  begin t0 %1 -> %2
  wait t0
end
call z (%1) -> (%4)
output %4
begin t1 %2 -> %3
wait t1
call a (%3) -> (%5)
output %5
)",
                                     programs, catalog);
  const ProgramPlan& train = plan.programs.front();
  ASSERT_FALSE(train.instances[1].scope.valid());
  ProgramFacts facts(programs.programs.front(), catalog);
  const std::vector<double> seconds = estimate_items(train, facts);
  std::vector<double> transfers;
  walk_items(train, [&](const Item& item, int64_t number, LoopId) {
    if (!std::holds_alternative<BeginTransfer>(item)) return;
    transfers.push_back(seconds[static_cast<size_t>(number)]);
  });
  // A nanosecond a byte; an item costs 1e-7 each time.
  EXPECT_THAT(transfers, testing::ElementsAre(testing::DoubleNear(2.048e-6 + 4e-7, 1e-12),
                                              testing::DoubleNear(2.048e-6 + 1e-7, 1e-12)));
}

}  // namespace
}  // namespace plimsoll::plan
