#include "plan/tree/restore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "plan/search/planner.h"
#include "plan/search/trial.h"
#include "toys/toy_plans.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

// A deep net with totals over the batch, all of which is computed again on the way back, in loops.
class RestoreTest : public ::testing::Test {
 protected:
  RestoreTest()
      : programs_(testing::toy_network(
            {.batch = 32, .widths = std::vector<int64_t>(13, 64), .normalized = true})),
        facts_(programs_.programs.front(), catalog_),
        trials_(facts_, {}, options_) {
    recipe_.shapes = make_flat_shapes(facts_, trials_.dependencies(), trials_.slots()).front();
    const ProgramPlan tree = trials_.build(recipe_);
    all_ = make_loop_checkpoints(tree, facts_, trials_.dependencies(), {.segments = 2});
  }

  struct Scored {
    Bytes load;
    double seconds = 0;
    std::vector<Cut> left;  // with so many bytes
  };
  Scored score(const std::vector<Cut>& cuts, Bytes most) {
    recipe_.cuts = cuts;
    const ProgramPlan plan = trials_.build(recipe_);
    const std::vector<Buffer> buffers = find_buffers(plan);
    return {find_load(buffers, kAlways), estimate_seconds(plan, facts_),
            take_back({plan, buffers}, cuts, most, facts_)};
  }

  PlanOptions options_;
  toys::ToyCatalog catalog_;
  graph::ProgramSet programs_;
  ProgramFacts facts_;
  Trials trials_;
  Schedule recipe_;
  std::vector<Cut> all_;
};

TEST_F(RestoreTest, TakesAllBackWhereThereIsRoom) {
  const double kept = score({}, Bytes(0)).seconds;
  std::vector<Cut> cuts = all_;
  double before = std::numeric_limits<double>::infinity();
  for (;;) {
    const Scored now = score(cuts, Bytes(int64_t{1} << 40));
    EXPECT_LT(now.seconds, before);
    before = now.seconds;
    if (now.left.size() == cuts.size()) break;
    cuts = now.left;
  }
  EXPECT_NEAR(before, kept, 1e-9 * kept);
}

TEST_F(RestoreTest, StaysBelowTheBytesThatItIsGiven) {
  const Scored smallest = score(all_, Bytes(0));
  EXPECT_EQ(smallest.left.size(), all_.size());
  const Bytes free = score({}, Bytes(0)).load;
  ASSERT_LT(smallest.load, free);
  const Bytes most((smallest.load.count() + free.count()) / 2);
  const Scored restored = score(score(all_, most).left, most);
  EXPECT_LE(restored.load, most);
  EXPECT_LT(restored.seconds, smallest.seconds);
}

TEST_F(RestoreTest, MakesTheFrontierBetter) {
  PlanOutcome outcome = make_plan(programs_, catalog_, {});
  ASSERT_GT(outcome.frontier.size(), 2u);
  const auto checkpoints =
      std::ranges::find(outcome.plain, std::string("checkpoints"), &FrontierPoint::what);
  ASSERT_NE(checkpoints, outcome.plain.end());
  const bool better = std::ranges::any_of(outcome.frontier, [&](const FrontierPoint& point) {
    return point.arena_bytes < checkpoints->arena_bytes && point.seconds < checkpoints->seconds;
  });
  EXPECT_TRUE(better);
}

}  // namespace
}  // namespace plimsoll::plan
