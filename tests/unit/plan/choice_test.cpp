// Plans that are chosen by other times than they are searched by: what fits stays what it was.

#include "plan/search/choice.h"

#include <gtest/gtest.h>

#include "plan/search/spilled.h"
#include "plan/validate/validator.h"
#include "toys/toy_ops.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

graph::ProgramSet normalized_programs() {
  testing::ToyNetwork network;
  network.widths = {16, 40, 16, 64, 16, 40, 16};
  network.normalized = true;
  return testing::toy_programs(network, 5);
}

PlanOptions make_options(const graph::KernelCatalog* choice, bool search) {
  PlanOptions options;
  options.max_steps = 3000;
  options.least_moved = Bytes(64);
  options.choice = choice;
  options.search_by_choice = search;
  return options;
}

class Choice : public ::testing::TestWithParam<std::pair<double, bool>> {
 protected:
  Choice() { other_.odd_nodes = GetParam().first; }
  PlanOptions options() const { return make_options(&other_, GetParam().second); }

  const graph::ProgramSet set_ = normalized_programs();
  const toys::ToyCatalog own_;
  toys::ToyCatalog other_;
};

TEST_P(Choice, ChangesNothingOfWhatFits) {
  const PlanOutcome before = make_plan(set_, own_, make_options(nullptr, false));
  const PlanOutcome outcome = make_plan(set_, own_, options());
  EXPECT_EQ(outcome.smallest, before.smallest);
  EXPECT_EQ(outcome.lower_bound, before.lower_bound);
  const auto spilled = make_spilled_plans(set_, own_, make_options(nullptr, false), 1_MiB);
  const auto chosen = make_spilled_plans(set_, own_, options(), 1_MiB);
  ASSERT_TRUE(spilled && chosen);
  EXPECT_EQ(chosen->smallest, spilled->smallest);
}

TEST_P(Choice, MoreMemoryIsNeverSlowerByTheTimesThatCount) {
  const PlanOutcome free = make_plan(set_, own_, options());
  ASSERT_NE(free.fits(), nullptr);
  EXPECT_EQ(free.frontier.front().arena_bytes, free.smallest);
  EXPECT_EQ(free.frontier.back().arena_bytes, free.free_plan);
  double last = 0;
  for (const FrontierPoint& point : free.frontier) {
    PlanOptions within = options();
    within.arena_limit = point.arena_bytes;
    const PlanOutcome outcome = make_plan(set_, own_, within);
    ASSERT_NE(outcome.fits(), nullptr);
    EXPECT_EQ(outcome.fits()->seconds, point.seconds);
    EXPECT_TRUE(last == 0 || point.seconds < last);
    last = point.seconds;
    const Validation verdict = validate(outcome.fits()->plan, set_, own_);
    EXPECT_TRUE(verdict.ok()) << verdict.message;
    // What is told is what the plan takes by those times.
    ProgramFacts facts(set_.programs.front(), other_);
    EXPECT_NEAR(estimate_seconds(outcome.fits()->plan.programs.front(), facts), point.seconds,
                1e-6 * point.seconds);
  }
}

// Transfers are drawn apart by the times that the search went by: so are those of the plan that
// is made in the end.
TEST_P(Choice, PlansWithAFileAreThoseThatWereTimed) {
  const auto all = make_spilled_plans(set_, own_, options(), 1_MiB);
  ASSERT_TRUE(all && !all->frontier.empty());
  for (const FrontierPoint& point : all->frontier) {
    PlanOptions within = options();
    within.arena_limit = point.arena_bytes;
    const auto outcome = make_spilled_plans(set_, own_, within, 1_MiB);
    ASSERT_TRUE(outcome && outcome->fits);
    EXPECT_LE(outcome->fits->plan.arena_bytes, point.arena_bytes);
    const Validation verdict = validate(outcome->fits->plan, set_, own_);
    EXPECT_TRUE(verdict.ok()) << verdict.message;
    ProgramFacts facts(set_.programs.front(), other_);
    EXPECT_NEAR(estimate_seconds(outcome->fits->plan.programs.front(), facts), point.seconds,
                1e-6 * point.seconds);
  }
}

TEST_P(Choice, IsTheFastestOfAllThatFit) {
  const PlanOutcome before = make_plan(set_, own_, make_options(nullptr, false));
  for (const FrontierPoint& point : before.frontier) {
    PlanOptions within = make_options(nullptr, false);
    within.arena_limit = point.arena_bytes;
    const PlanOutcome usual = make_plan(set_, own_, within);
    within = options();
    within.arena_limit = point.arena_bytes;
    const PlanOutcome chosen = make_plan(set_, own_, within);
    ProgramFacts facts(set_.programs.front(), other_);
    const double seconds = estimate_seconds(usual.fits()->plan.programs.front(), facts);
    EXPECT_LE(chosen.fits()->seconds, 1.02 * seconds);  // the free plan may be so much slower
  }
}

INSTANTIATE_TEST_SUITE_P(Times, Choice,
                         ::testing::Values(std::pair(1.0, false), std::pair(30.0, false),
                                           std::pair(0.02, false), std::pair(30.0, true),
                                           std::pair(0.02, true)));

}  // namespace
}  // namespace plimsoll::plan
