// Room for transfers: what is larger for it is faster, and is the plan that was timed.

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/search/candidates.h"
#include "plan/tree/spill_placement.h"
#include "toys/toy_ops.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

class Room : public ::testing::Test {
 protected:
  Room() {
    options_.max_steps = 20000;
    options_.least_moved = Bytes(64);
    options_.move = true;
  }
  static graph::ProgramSet make_programs() {
    testing::ToyNetwork network;
    network.widths = {16, 40, 16, 64, 16, 40, 16};
    return testing::toy_programs(network, 5);
  }
  std::vector<Candidate> give_room(const std::set<std::string>& spilled) {
    place_states(set_, Bytes(), spilled, base_);
    const std::vector<Candidate> candidates =
        search_program(facts_, base_.states, options_).candidates;
    return give_room_to(candidates, facts_, base_.states, options_);
  }

  const graph::ProgramSet set_ = make_programs();
  const toys::ToyCatalog catalog_;
  ProgramFacts facts_{set_.programs.front(), catalog_};
  PlanOptions options_;
  Plan base_;
};

TEST_F(Room, IsGivenWhereItMakesFaster) {
  const auto placements = make_spill_placements(set_, options_.least_moved);
  ASSERT_FALSE(placements.empty());
  const std::vector<Candidate> roomy = give_room(placements.back());
  ASSERT_FALSE(roomy.empty());
  Trials trials(facts_, base_.states, options_);
  for (const Candidate& candidate : roomy) {
    Schedule schedule = candidate.schedule;
    EXPECT_GT(schedule.room, Bytes());
    schedule.room = Bytes();
    const ProgramPlan without = trials.build(schedule);
    EXPECT_LT(candidate.seconds, estimate_seconds(without, facts_));
    const ProgramPlan plan = realize(candidate, facts_, base_.states, options_);
    EXPECT_EQ(plan.arena_bytes, candidate.arena_bytes);
    EXPECT_LE(find_load(find_buffers(plan), kAlways), candidate.schedule.room);
    EXPECT_EQ(estimate_seconds(plan, facts_), candidate.seconds);
  }
}

TEST_F(Room, IsForStatesInTheFile) { EXPECT_TRUE(give_room({}).empty()); }

}  // namespace
}  // namespace plimsoll::plan
