#include "plan/search/why.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "plan/search/planner.h"
#include "toys/toy_ops.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

bool has(const ValueStory& story, const std::string& treatment) {
  return std::ranges::find(story.treatment, treatment) != story.treatment.end();
}

std::vector<ValueStory> tell_all(const Plan& plan, const graph::ProgramSet& programs,
                                 const graph::KernelCatalog& catalog, size_t layers) {
  std::vector<ValueStory> all;
  for (size_t l = 1; l <= layers; ++l) {
    const std::vector<ValueStory> some =
        explain_layer(plan, programs, catalog, "layer" + std::to_string(l));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

Plan plan_within(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog,
                 Bytes arena) {
  const PlanOutcome outcome = make_plan(programs, catalog, {.arena_limit = arena});
  return outcome.fits() == nullptr ? Plan() : outcome.fits()->plan;
}

TEST(WhyTest, EveryPointOfTheFrontierIsToldOf) {
  const graph::ProgramSet programs =
      testing::toy_network({.batch = 64, .widths = {64, 256, 256, 256, 16}, .normalized = true});
  const toys::ToyCatalog catalog;
  const PlanOutcome outcome = make_plan(programs, catalog, {});
  ASSERT_GE(outcome.frontier.size(), 2u);
  for (const FrontierPoint& point : outcome.frontier) {
    SCOPED_TRACE(point.what);
    const Plan plan = plan_within(programs, catalog, point.arena_bytes);
    Bytes at_peak;
    for (const ValueStory& story : tell_all(plan, programs, catalog, 4)) {
      SCOPED_TRACE(story.value);
      EXPECT_FALSE(story.treatment.empty());
      EXPECT_TRUE(story.saved == Bytes() || story.saved + story.at_peak == story.whole);
      if (has(story, "kept")) {
        EXPECT_EQ(story.treatment.size(), 1u);
        EXPECT_EQ(story.seconds, 0);
      }
      at_peak += story.at_peak;
    }
    EXPECT_GT(at_peak, Bytes());
    EXPECT_LE(at_peak, plan.arena_bytes);
  }
}

TEST(WhyTest, WhatIsGivenUpSavesBytesAndCostsTime) {
  const graph::ProgramSet programs =
      testing::toy_network({.batch = 64, .widths = {64, 256, 256, 256, 16}, .normalized = true});
  const toys::ToyCatalog catalog;
  const PlanOutcome outcome = make_plan(programs, catalog, {});
  const Plan small = plan_within(programs, catalog, outcome.smallest);
  const std::vector<ValueStory> stories = tell_all(small, programs, catalog, 4);
  EXPECT_TRUE(std::ranges::any_of(stories, [](const ValueStory& s) { return s.saved > Bytes(); }));
  EXPECT_TRUE(std::ranges::any_of(stories, [](const ValueStory& s) {
    return (has(s, "computed again") || has(s, "as positive_bits")) && s.seconds > 0;
  }));
  const Plan naive = naive_plan(programs, catalog);
  for (const ValueStory& story : tell_all(naive, programs, catalog, 4)) {
    EXPECT_EQ(story.treatment, std::vector<std::string>{"kept"}) << story.value;
    EXPECT_EQ(story.saved, Bytes()) << story.value;
  }
}

TEST(WhyTest, UnknownLayersAreRefused) {
  const graph::ProgramSet programs = testing::toy_network({});
  const toys::ToyCatalog catalog;
  const Plan plan = naive_plan(programs, catalog);
  try {
    (void)explain_layer(plan, programs, catalog, "laier2");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_NE(std::string(error.what()).find("layer2"), std::string::npos);
  }
}

}  // namespace
}  // namespace plimsoll::plan
