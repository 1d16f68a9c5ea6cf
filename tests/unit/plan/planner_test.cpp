#include "plan/search/planner.h"

#include <gtest/gtest.h>

#include <ctime>
#include <limits>

#include "base/error.h"
#include "graph/builder.h"
#include "plan/search/techniques.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "toys/sanitized.h"
#include "toys/toy_ops.h"
#include "toys/toy_plans.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

using testing::toy_network;
using testing::toy_programs;
using testing::ToyNetwork;

const Plan& plan_of(const PlanOutcome& outcome) {
  EXPECT_NE(outcome.fits(), nullptr);
  return outcome.fits()->plan;
}

void expect_valid(const Plan& plan, const graph::ProgramSet& programs,
                  const graph::KernelCatalog& catalog) {
  const Validation validation = validate(plan, programs, catalog);
  EXPECT_TRUE(validation.ok()) << validation.message << "\n" << print(plan, programs);
}

// Every plan on the frontier is valid, fits its limit, and is never below the lower bound.
void expect_sound(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog,
                  PlanOptions options = {}) {
  const PlanOutcome free = make_plan(programs, catalog, options);
  EXPECT_EQ(plan_of(free).arena_bytes, free.free_plan);
  expect_valid(plan_of(free), programs, catalog);
  ASSERT_FALSE(free.frontier.empty());
  EXPECT_EQ(free.frontier.back().arena_bytes, free.free_plan);
  EXPECT_GE(free.smallest, free.lower_bound);
  for (const FrontierPoint& point : free.frontier) {
    options.arena_limit = point.arena_bytes;
    const PlanOutcome outcome = make_plan(programs, catalog, options);
    const Plan& plan = plan_of(outcome);
    EXPECT_LE(plan.arena_bytes, point.arena_bytes);
    EXPECT_EQ(outcome.fits()->seconds, point.seconds);
    expect_valid(plan, programs, catalog);
  }
  options.arena_limit = free.smallest - 1_B;
  EXPECT_EQ(make_plan(programs, catalog, options).fits(), nullptr);
}

size_t loop_count(const Plan& plan) {
  size_t count = 0;
  for (const ProgramPlan& program : plan.programs) count += program.loops.size();
  return count;
}

TEST(PlannerTest, AProgramWithoutNodesHandsItsInputOut) {
  graph::GraphBuilder builder(toys::registry());
  builder.output(builder.input("x", {DType::kFloat32, {Dim::batch(), Dim::constant(3)}}));
  graph::ProgramSet programs;
  programs.programs.push_back({.name = "predict", .graph = builder.finish(), .batch = 5});
  const toys::ToyCatalog catalog;
  expect_valid(plan_of(make_plan(programs, catalog, {})), programs, catalog);
}

TEST(PlannerTest, PlansOfManyNetworksAreValid) {
  for (int64_t batch : {1, 7, 16, 19}) {
    for (bool normalized : {false, true}) {
      for (int64_t block : {1, 2, 4}) {
        const ToyNetwork network{.batch = batch, .widths = {6, 9, 5, 3}, .normalized = normalized};
        const graph::ProgramSet programs = toy_programs(network, 3);
        toys::ToyCatalog catalog;
        catalog.blocks["h1"] = {block, graph::kWholeAxis};
        catalog.blocks["h2"] = {8, 2};
        catalog.blocks["g2"] = {4, graph::kWholeAxis};
        expect_sound(programs, catalog, {.max_steps = 20'000});
      }
    }
  }
}

TEST(PlannerTest, NaivePlansAreValid) {
  for (bool normalized : {false, true}) {
    const graph::ProgramSet programs = toy_programs({.batch = 9, .normalized = normalized}, 3);
    const toys::ToyCatalog catalog;
    const Plan plan = naive_plan(programs, catalog);
    expect_valid(plan, programs, catalog);
    EXPECT_EQ(loop_count(plan), 0u);
    for (const Instance& instance : plan.programs[0].instances) {
      EXPECT_FALSE(instance.in_place.valid());
    }
  }
}

// A net whose early layers are wide and have small blocks, and whose last one has a large block.
graph::ProgramSet wide_then_dense() {
  return toy_network({.batch = 64, .widths = {1024, 16, 1024, 16}});
}
toys::ToyCatalog large_last_block() {
  toys::ToyCatalog catalog;
  for (const char* node : {"h3", "g3"}) catalog.blocks[node] = {32, graph::kWholeAxis};
  return catalog;
}

// One block covers the batch, so that all of it is kept or not.
toys::ToyCatalog whole_blocks(const graph::ProgramSet& programs) {
  toys::ToyCatalog catalog;
  const graph::Graph& graph = programs.programs.front().graph;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const size_t axes = graph::axes_of(graph, graph::NodeId(n)).size();
    catalog.blocks[graph.nodes[n].name] = graph::Block(axes, graph::kWholeAxis);
  }
  return catalog;
}

TEST(PlannerTest, SwitchesInAllCombinationsGiveValidPlans) {
  const graph::ProgramSet programs = toy_programs({.batch = 24, .normalized = true}, 5);
  toys::ToyCatalog catalog;
  catalog.blocks["h2"] = {8, graph::kWholeAxis};
  catalog.row_exact_nodes = {"y1", "n1"};
  constexpr int kStride = toys::kSanitized ? 29 : 1;  // odd: each switch comes on and off
  for (int switches = 0; switches < 1 << techniques().size(); switches += kStride) {
    PlanOptions options;
    for (size_t t = 0; t < techniques().size(); ++t) {
      options.*(techniques()[t].on) = (switches >> t & 1) != 0;
    }
    options.gap = switches % 3 == 0 ? 64_B : 0_B;
    options.max_steps = 5'000;  // what is found is not the question
    expect_sound(programs, catalog, options);
  }
}

TEST(PlannerTest, TechniquesAreSwitchedOffByName) {
  PlanOptions options;
  switch_off("", options);
  for (const Technique& technique : techniques()) EXPECT_TRUE(options.*(technique.on));
  switch_off("slices,recompute", options);
  for (const Technique& technique : techniques()) {
    EXPECT_EQ(options.*(technique.on), technique.name != "slices" && technique.name != "recompute");
  }
  try {
    switch_off("in-place,recomputed", options);
    FAIL() << "an unknown name is refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Did you mean \"recompute\"?"), std::string::npos);
  }
}

TEST(PlannerTest, SlicesHelpWhereValuesAreLarge) {
  const graph::ProgramSet programs = toy_network({.batch = 64, .widths = {512, 512, 8}});
  const toys::ToyCatalog catalog;
  const PlanOutcome with = make_plan(programs, catalog, {});
  const PlanOutcome without = make_plan(programs, catalog, {.slices = false});
  EXPECT_LT(with.smallest, without.smallest);
  EXPECT_EQ(loop_count(plan_of(without)), 0u);
}

// The free plan's time and more: the smallest plan within it, whatever the limit allows.
TEST(PlannerTest, ASlowdownIsASecondBudget) {
  const graph::ProgramSet programs =
      toy_network({.batch = 64, .widths = std::vector<int64_t>(17, 64)});
  const toys::ToyCatalog catalog = whole_blocks(programs);
  const PlanOutcome free = make_plan(programs, catalog, {});
  ASSERT_GT(free.frontier.size(), 2u);
  for (const FrontierPoint& point : free.frontier) {
    const double slowdown = point.seconds / free.free_seconds * (1 + 1e-9);
    const PlanOutcome within = make_plan(programs, catalog, {.max_slowdown = slowdown});
    ASSERT_NE(within.fits(), nullptr);
    EXPECT_LE(plan_of(within).arena_bytes, point.arena_bytes);
    EXPECT_LE(within.fits()->seconds, slowdown * free.free_seconds);
    const PlanOutcome both = make_plan(
        programs, catalog, {.arena_limit = point.arena_bytes - 1_B, .max_slowdown = slowdown});
    EXPECT_EQ(both.fits(), nullptr) << point.what;
  }
  const PlanOutcome one = make_plan(programs, catalog, {.max_slowdown = 1.0});
  EXPECT_EQ(plan_of(one), plan_of(free));
}

// What anyone would do is among the candidates.
TEST(PlannerTest, PlainPlansAreNeverBetter) {
  const graph::ProgramSet programs =
      toy_network({.batch = 64, .widths = std::vector<int64_t>(17, 64)});
  for (const toys::ToyCatalog& catalog : {whole_blocks(programs), toys::ToyCatalog()}) {
    const PlanOutcome outcome = make_plan(programs, catalog, {});
    ASSERT_EQ(outcome.plain.size(), 4u);
    EXPECT_EQ(outcome.plain.front().what, "whole batch, all kept");
    for (const FrontierPoint& plain : outcome.plain) {
      // Placement may cost a little: it is not counted for them.
      EXPECT_LE(outcome.smallest.size(), 1.02 * plain.arena_bytes.size()) << plain.what;
      EXPECT_LE(outcome.frontier.back().seconds, 1.02 * plain.seconds) << plain.what;
    }
  }
}

TEST(PlannerTest, NestedLoopsHelpWhereBlocksDiffer) {
  const graph::ProgramSet programs = wide_then_dense();
  const toys::ToyCatalog catalog = large_last_block();
  const PlanOptions plain{.saved_forms = false, .recompute = false};
  PlanOptions flat = plain;
  flat.nested_loops = false;
  const PlanOutcome with = make_plan(programs, catalog, plain);
  const PlanOutcome without = make_plan(programs, catalog, flat);
  EXPECT_LT(with.smallest, without.smallest);
  expect_sound(programs, catalog);
}

TEST(PlannerTest, SavedFormsHelpWhereGradientsAskForTheSignAlone) {
  const graph::ProgramSet programs = toys::parse_programs(R"(
program train batch 64
input %x float32 (B, 64)
state %w float32 (64, 64) weight trainable layer=dense
state %v float32 (64, 64) weight trainable layer=dense
node h lines (%x, %w) -> (%h float32 (B, 64)) {} layer=dense forward
node y mix (%h) -> (%y float32 (B, 64)) {} layer=relu forward
node k lines (%y, %v) -> (%k float32 (B, 64)) {} layer=dense forward
node z mix (%k) -> (%z float32 (B, 64)) {} layer=relu forward
node loss grand_total (%z) -> (%loss float32 ()) {} loss
node dz mix (%z) -> (%dz float32 (B, 64)) {} backward
node dk lines (%dz, %v) -> (%dk float32 (B, 64)) {} backward
node dh gate (%dk, %y) -> (%dh float32 (B, 64)) {} layer=relu backward
node g lines_grad (%x, %dh) -> (%g float32 (64, 64)) {} layer=dense backward
node u descend (%w, %g) -> (%u float32 (64, 64)) {} update
node write state_write (%u) -> () {} writes=w update
output %loss
)");
  const toys::ToyCatalog catalog = whole_blocks(programs);
  const PlanOutcome with = make_plan(programs, catalog, {.recompute = false});
  const PlanOutcome without =
      make_plan(programs, catalog, {.saved_forms = false, .recompute = false});
  EXPECT_LT(with.smallest, without.smallest);
  expect_sound(programs, catalog, {.recompute = false});
}

TEST(PlannerTest, ComputingAgainHelpsWhereNothingElseDoes) {
  const graph::ProgramSet programs =
      toy_network({.batch = 64, .widths = std::vector<int64_t>(17, 64)});
  const toys::ToyCatalog catalog = whole_blocks(programs);
  const PlanOutcome with = make_plan(programs, catalog, {.saved_forms = false});
  const PlanOutcome without =
      make_plan(programs, catalog, {.saved_forms = false, .recompute = false});
  const Bytes state = plan_of(with).state_bytes;
  EXPECT_LT((with.smallest - state).count(), (without.smallest - state).count() * 2 / 3);
  EXPECT_GT(with.frontier.size(), 2u);

  expect_sound(programs, catalog, {.saved_forms = false});
}

// Totals over the batch end every loop: only where each loop computes its own again, slice by
// slice, need no wide layer have all rows.
TEST(PlannerTest, LoopsComputeAgainWhatTotalsKeepApart) {
  constexpr int kBlocks = toys::kSanitized ? 3 : 6;
  std::vector<int64_t> widths = {8};
  for (int block = 0; block < kBlocks; ++block) widths.insert(widths.end(), {256, 256, 8});
  const graph::ProgramSet programs =
      toy_network({.batch = 64, .widths = widths, .normalized = true});
  const toys::ToyCatalog catalog;
  const PlanOutcome outcome = make_plan(programs, catalog, {});
  Bytes least = outcome.free_plan;
  for (const FrontierPoint& plain : outcome.plain) least = min(least, plain.arena_bytes);
  const Bytes state = plan_of(outcome).state_bytes;
  if (!toys::kSanitized) {  // a chain of three is too short for it
    EXPECT_LT((outcome.smallest - state).count(), (least - state).count() / 2);
  }
  expect_sound(programs, catalog);
}

// Weights that are updated early cannot make values again later.
TEST(PlannerTest, DeferredUpdatesHelpWhereValuesAreLargerThanWeights) {
  toys::ToyCatalog catalog;
  const auto programs =
      toy_network({.batch = 2048, .widths = std::vector<int64_t>(7, 16), .normalized = true});
  const PlanOutcome with = make_plan(programs, catalog, {.max_steps = 400'000});
  const PlanOutcome without =
      make_plan(programs, catalog, {.max_steps = 400'000, .deferred_updates = false});
  EXPECT_LT(with.smallest.count(), without.smallest.count() * 3 / 4);
  EXPECT_NE(with.frontier.front().what.find("deferred updates"), std::string::npos);
  for (const FrontierPoint& point : without.frontier) {
    EXPECT_EQ(point.what.find("deferred updates"), std::string::npos);
  }
  expect_sound(programs, catalog, {.max_steps = 400'000});
}

TEST(PlannerTest, InPlaceReuseHelpsElementwiseChains) {
  const graph::ProgramSet programs = toy_network({.batch = 64, .widths = {512, 512}});
  const toys::ToyCatalog catalog;
  EXPECT_LT(make_plan(programs, catalog, {}).smallest,
            make_plan(programs, catalog, {.in_place = false}).smallest);
}

TEST(PlannerTest, ReadingInputsAgainHelpsWhenPhasesAreFarApart) {
  const graph::ProgramSet programs =
      toy_network({.batch = 64, .widths = {512, 8}, .normalized = true});
  const toys::ToyCatalog catalog;
  EXPECT_LT(make_plan(programs, catalog, {}).smallest,
            make_plan(programs, catalog, {.reread_inputs = false}).smallest);
}

TEST(PlannerTest, SeveralPlacersAreNeverWorse) {
  size_t better = 0;
  for (int64_t width = 3; width < 40; width += 3) {
    const graph::ProgramSet programs =
        toy_network({.batch = 16, .widths = {width, 2 * width, 7, 3 * width, width}});
    const toys::ToyCatalog catalog;
    const Bytes several = make_plan(programs, catalog, {}).smallest;
    const Bytes one = make_plan(programs, catalog, {.several_placers = false}).smallest;
    EXPECT_LE(several, one);
    if (several < one) ++better;
  }
  EXPECT_GE(better, 1u);
}

TEST(PlannerTest, EqualInputsGiveEqualPlansByteForByte) {
  const graph::ProgramSet programs = toy_programs({.batch = 33, .normalized = true}, 4);
  const toys::ToyCatalog catalog = large_last_block();
  const PlanOutcome first = make_plan(programs, catalog, {});
  const PlanOutcome second = make_plan(programs, catalog, {});
  EXPECT_EQ(print(plan_of(first), programs), print(plan_of(second), programs));
  EXPECT_EQ(first.frontier, second.frontier);
  EXPECT_EQ(first.culprits, second.culprits);
}

// Whatever the limit: the frontier does not depend on it, and more memory is never slower.
TEST(PlannerTest, MoreMemoryIsNeverSlower) {
  const graph::ProgramSet programs = toy_programs({.batch = 48, .widths = {64, 128, 8}}, 16);
  const toys::ToyCatalog catalog;
  const PlanOutcome free = make_plan(programs, catalog, {});
  double slowest = std::numeric_limits<double>::infinity();
  constexpr Bytes kStride = toys::kSanitized ? 8_KiB : 512_B;
  for (Bytes limit = free.smallest; limit <= free.free_plan * 2; limit += kStride) {
    const PlanOutcome outcome = make_plan(programs, catalog, {.arena_limit = limit});
    EXPECT_LE(plan_of(outcome).arena_bytes, limit);
    EXPECT_LE(outcome.fits()->seconds, slowest);
    EXPECT_EQ(outcome.frontier, free.frontier);
    slowest = outcome.fits()->seconds;
    if (limit >= free.free_plan) {
      EXPECT_EQ(plan_of(outcome), plan_of(free));
    }
  }
}

TEST(PlannerTest, BelowTheLowerBoundThereIsAProof) {
  const graph::ProgramSet programs = toy_network({.batch = 64, .widths = {256, 8}});
  const toys::ToyCatalog catalog;
  const PlanOutcome outcome = make_plan(programs, catalog, {.arena_limit = 1024_B});
  const auto* impossible = std::get_if<Impossible>(&outcome.answer);
  ASSERT_NE(impossible, nullptr);
  EXPECT_EQ(impossible->lower_bound, outcome.lower_bound);
  EXPECT_NE(impossible->proof.find("state variables take 8 KiB"), std::string::npos)
      << impossible->proof;
  const PlanOutcome between = make_plan(programs, catalog, {.arena_limit = outcome.lower_bound});
  EXPECT_TRUE(std::holds_alternative<NotFound>(between.answer));
}

TEST(PlannerTest, StateIsSharedAndTheArenaIsTheLargestProgram) {
  const graph::ProgramSet programs = toy_programs({.batch = 32}, 8);
  const toys::ToyCatalog catalog;
  const PlanOutcome outcome = make_plan(programs, catalog, {});
  const Plan& plan = plan_of(outcome);
  EXPECT_EQ(plan.states.size(), 3u);
  Bytes largest;
  for (const ProgramPlan& program : plan.programs) largest = max(largest, program.arena_bytes);
  EXPECT_EQ(plan.arena_bytes, plan.state_bytes + largest);
}

TEST(PlannerTest, UpdatesFreeGradientsWhereNothingIsSliced) {
  // One block covers the batch: gradients need not all be alive at once.
  const graph::ProgramSet programs = toy_network({.batch = 2, .widths = {64, 64, 64, 64, 64}});
  toys::ToyCatalog catalog;
  for (int layer = 1; layer <= 4; ++layer) {
    catalog.blocks["g" + std::to_string(layer)] = {2, graph::kWholeAxis};
  }
  const PlanOutcome outcome = make_plan(programs, catalog, {});
  const Bytes gradients = 4 * Bytes(64 * 64 * 4);
  EXPECT_LT(outcome.smallest - plan_of(outcome).state_bytes, gradients);
  expect_sound(programs, catalog);
}

TEST(PlannerTest, CulpritsSayWhatIsAliveAtThePeak) {
  const graph::ProgramSet programs = toy_network({.batch = 64, .widths = {256, 128, 8}});
  const toys::ToyCatalog catalog;
  const PlanOutcome outcome = make_plan(programs, catalog, {});
  ASSERT_FALSE(outcome.culprits.empty());
  Bytes sum;
  for (const Culprit& culprit : outcome.culprits) sum += culprit.bytes;
  EXPECT_EQ(outcome.culprits.front(), (Culprit{"layer1", Bytes(256 * 128 * 4), "gradients"}));
  EXPECT_LE(sum, outcome.free_plan);
  EXPECT_GE(sum, outcome.free_plan - 4_KiB);
}

TEST(PlannerTest, EffortIsCountedInSteps) {
  const graph::ProgramSet programs = toy_network({.batch = 64, .widths = {64, 64, 64}});
  const toys::ToyCatalog catalog;
  const PlanOutcome little = make_plan(programs, catalog, {.max_steps = 1});
  const PlanOutcome enough = make_plan(programs, catalog, {});
  ASSERT_NE(little.fits(), nullptr);
  expect_valid(plan_of(little), programs, catalog);
  EXPECT_GE(little.smallest, enough.smallest);
}

TEST(PlannerTest, LongChainsArePlanned) {
  const graph::ProgramSet programs =
      toy_network({.batch = 64, .widths = std::vector<int64_t>(1001, 16)});
  toys::ToyCatalog catalog;
  // The aim is two seconds. Of the processor, and with room: a test machine may be slow.
  const std::clock_t start = std::clock();
  const PlanOutcome outcome = make_plan(programs, catalog, {});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_NE(outcome.fits(), nullptr);
  EXPECT_LT(outcome.smallest, outcome.free_plan);
  if (!toys::kSanitized) {
    EXPECT_LT(seconds, 20);
  }
}

}  // namespace
}  // namespace plimsoll::plan
