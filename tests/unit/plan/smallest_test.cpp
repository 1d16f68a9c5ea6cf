// The smallest arena alone, asked for in less work than all plans, is the smallest of all of them.

#include <gtest/gtest.h>

#include "plan/search/planner.h"
#include "plan/search/spilled.h"
#include "toys/toy_ops.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

std::vector<graph::ProgramSet> make_sets() {
  std::vector<graph::ProgramSet> sets;
  for (size_t layers : {2, 6, 20}) {
    for (bool normalized : {false, true}) {
      testing::ToyNetwork network;
      network.widths = {16};
      for (size_t l = 0; l < layers; ++l) {
        network.widths.push_back(4 + 12 * static_cast<int64_t>(l % 5));
      }
      network.normalized = normalized;
      sets.push_back(testing::toy_programs(network, 5));
    }
  }
  return sets;
}

PlanOptions make_options(Bytes clone_bytes) {
  PlanOptions options;
  options.max_steps = 3000;
  options.clone_bytes = clone_bytes;
  options.least_moved = Bytes(64);
  return options;
}

TEST(Smallest, IsThatOfAllPlans) {
  const toys::ToyCatalog catalog;
  for (const graph::ProgramSet& set : make_sets()) {
    for (int64_t clone_bytes : {0, 2000}) {
      const PlanOptions options = make_options(Bytes(clone_bytes));
      const PlanOutcome all = make_plan(set, catalog, options);
      const SmallestArena alone = find_smallest_arena(set, catalog, options);
      EXPECT_EQ(alone.smallest, all.smallest);
      EXPECT_EQ(alone.lower_bound, all.lower_bound);
    }
  }
}

TEST(Smallest, IsThatOfAllPlansWithAFile) {
  const toys::ToyCatalog catalog;
  for (const graph::ProgramSet& set : make_sets()) {
    const PlanOptions options = make_options(Bytes(64));
    for (Bytes most : {Bytes(256), 1_MiB}) {
      const auto all = make_spilled_plans(set, catalog, options, most);
      const SmallestArena alone = find_smallest_spilled_arena(set, catalog, options, most);
      ASSERT_EQ(alone.smallest.has_value(), all.has_value());
      if (!all) continue;
      EXPECT_EQ(*alone.smallest, all->smallest);
    }
  }
}

TEST(Smallest, IsNotLookedForBelowTheLowerBound) {
  const toys::ToyCatalog catalog;
  const graph::ProgramSet set = make_sets().front();
  PlanOptions options = make_options(Bytes());
  const Bytes bound = find_smallest_arena(set, catalog, options).lower_bound;
  options.arena_limit = bound - Bytes(1);
  EXPECT_EQ(find_smallest_arena(set, catalog, options).smallest, std::nullopt);
}

TEST(Smallest, WithAFileAndALimitIsAnyWithinIt) {
  const toys::ToyCatalog catalog;
  for (const graph::ProgramSet& set : make_sets()) {
    PlanOptions options = make_options(Bytes());
    const Bytes smallest = *find_smallest_spilled_arena(set, catalog, options, 1_MiB).smallest;
    for (Bytes more : {Bytes(), Bytes(256), 1_MiB}) {
      options.arena_limit = smallest + more;
      const auto within = find_smallest_spilled_arena(set, catalog, options, 1_MiB).smallest;
      ASSERT_TRUE(within.has_value());
      EXPECT_LE(*within, *options.arena_limit);
    }
  }
}

}  // namespace
}  // namespace plimsoll::plan
