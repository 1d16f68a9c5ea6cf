#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/kernel/backends.h"
#include "base/error.h"
#include "graph/verify.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "plan/search/spilled.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "property/compare_runs.h"
#include "property/random_network.h"
#include "property/random_plan.h"

// Random networks on every backend: whatever plan is valid gives the bits of the naive one.

namespace plimsoll::property {
namespace {

// Seeds from `first`, on one backend.
struct Shard {
  std::string backend;
  uint64_t first = 0;
  uint64_t count = 0;
};

// A kernel set with a random cap on batch blocks, so that blocks meet slices in many ways; of one
// image a few rows make a block.
std::unique_ptr<backend::Backend> random_backend(const std::string& name, Random& random,
                                                 bool one_image) {
  backend::KernelSetOptions options{
      .threads = random.chance(70) ? 1 : 2, .block_set = 0, .caps = {}};
  if (random.chance(60)) options.caps.emplace_back("batch", int64_t{1} << random.between(0, 2));
  if (random.chance(30)) options.caps.emplace_back("classes", 2);
  if (random.chance(30)) options.caps.emplace_back("units", 2);
  if (one_image) options.caps.emplace_back("rows", int64_t{1} << random.between(1, 2));
  return backend::make_backend(name, options);
}

struct Setting {
  Setting(const std::string& name, uint64_t seed, const NetworkOptions& options = {},
          int64_t lanes = 1)
      : random(seed),
        programs(random_network(seed, options)),
        backend(random_backend(name, random, options.one_image)) {
    const ops::PackOffers packs = [this](const graph::Graph& graph, graph::NodeId node) {
      return backend->packs(graph, node);
    };
    ops::Offers offers = backend->offers();
    // Every other network updates all weights with their gradients; a batch of none has no factors
    // that would take more.
    if (seed % 2 == 0 && lanes == 1) offers.dense_update = Bytes(1);
    offers.dense_update_rows = 0;
    for (graph::Program& program : programs.programs) {
      program.lanes = lanes;
      program.graph = ops::fuse(program.graph, ops::registry(), offers, 0);
      program.graph = ops::insert_packs(program.graph, ops::registry(), packs);
    }
    naive = plan::naive_plan(programs, catalog());
    expected = run_programs(programs, naive, *backend, usual_order(programs), {.poison = true});
  }
  const graph::KernelCatalog& catalog() const { return backend->catalog(); }
  // "" where the plan is valid and gives the naive plan's bits.
  std::string judge(const plan::Plan& plan) const {
    const plan::Validation valid = plan::validate(plan, programs, catalog());
    if (!valid.ok()) return std::string(to_string(valid.verdict)) + ": " + valid.message;
    return compare(plan);
  }
  std::string compare(const plan::Plan& plan) const {
    try {
      return first_difference(
          expected, run_programs(programs, plan, *backend, usual_order(programs), watched));
    } catch (const Error& error) {
      return error.message();
    }
  }

  const exec::ExecutorOptions watched{.poison = true, .spill_directory = ::testing::TempDir()};
  Random random;
  graph::ProgramSet programs;
  std::unique_ptr<backend::Backend> backend;
  plan::Plan naive;
  Results expected;
};

// Whether the first loss is a number: a NaN would be equal to itself everywhere.
bool is_finite(const Results& results) {
  float loss = 0;
  std::memcpy(&loss, results.at("train/0/0").data(), sizeof(loss));
  return std::isfinite(loss);
}

class RandomGraphs : public ::testing::TestWithParam<Shard> {};

// How many instances of the plans that were judged are saved forms, and how many clones' copies.
struct Techniques {
  int64_t forms = 0;
  int64_t clones = 0;
  int64_t in_file = 0;     // state variables
  int64_t in_loops = 0;    // updated row by row
  int64_t merged = 0;      // of those, with the gradient
  int64_t moved = 0;       // other values in the file
  int64_t over_rows = 0;   // loops over the rows of images
  int64_t rows_moved = 0;  // transfers that say which rows an iteration needs
  int64_t refused = 0;     // of broken plans
  int64_t accepted = 0;

  void count_moves(const plan::Plan& plan, const graph::ProgramSet& programs) {
    for (const plan::StatePlacement& state : plan.states) {
      in_file += state.space == plan::Space::kSpill ? 1 : 0;
    }
    for (size_t p = 0; p < plan.programs.size(); ++p) {
      const graph::Graph& graph = programs.programs[p].graph;
      for (const plan::Loop& loop : plan.programs[p].loops) {
        if (loop.axis != "state_rows") continue;
        ++in_loops;
        for (const plan::Item& item : loop.items) {
          const auto* call = std::get_if<plan::Call>(&item);
          const bool is_merged =
              call != nullptr && graph.node(call->node).op->name() == "dense_grad_update";
          merged += is_merged ? 1 : 0;
        }
      }
      for (const plan::Instance& instance : plan.programs[p].instances) {
        const graph::Value& value = graph.value(instance.value);
        const bool node = value.kind == graph::ValueKind::kNode &&
                          graph.node(value.producer).stage != graph::Stage::kUpdate;
        moved += node && instance.space == plan::Space::kSpill ? 1 : 0;
      }
    }
  }

  void count(const plan::Plan& plan) {
    for (const plan::ProgramPlan& program : plan.programs) {
      for (const plan::Loop& loop : program.loops) {
        over_rows += loop.axis == graph::kRowsAxis ? 1 : 0;
        for (const plan::Item& item : loop.items) {
          const auto* begin = std::get_if<plan::BeginTransfer>(&item);
          rows_moved += begin != nullptr && !begin->rows.empty() ? 1 : 0;
        }
      }
      for (const plan::Instance& instance : program.instances) {
        forms += instance.form.empty() ? 0 : 1;
        clones += instance.copy > 0 ? 1 : 0;
      }
    }
  }
};

// Each technique on or off.
plan::PlanOptions random_options(Random& random) {
  return {.arena_limit = {},
          .max_steps = 4000,
          .gap = Bytes(64),
          .nested_loops = random.chance(70),
          .reread_inputs = random.chance(70),
          .in_place = random.chance(80),
          .saved_forms = random.chance(80),
          .recompute = random.chance(80),
          .several_placers = random.chance(80)};
}

void check_planner(Setting& setting, Techniques& techniques) {
  const plan::PlanOptions free = random_options(setting.random);
  const plan::PlanOutcome outcome = plan::make_plan(setting.programs, setting.catalog(), free);
  ASSERT_NE(outcome.fits(), nullptr);
  EXPECT_GE(outcome.smallest, outcome.lower_bound);
  EXPECT_EQ(setting.judge(outcome.fits()->plan), "") << outcome.fits()->what;
  std::vector<Bytes> limits = {outcome.smallest};
  for (const plan::FrontierPoint& point : outcome.frontier) limits.push_back(point.arena_bytes);
  if (limits.size() > 3) limits.erase(limits.begin() + 2, limits.end() - 1);
  for (Bytes limit : limits) {
    plan::PlanOptions options = free;
    options.arena_limit = limit;
    const plan::PlanOutcome limited = plan::make_plan(setting.programs, setting.catalog(), options);
    ASSERT_NE(limited.fits(), nullptr) << limit.count();
    const plan::Plan& plan = limited.fits()->plan;
    EXPECT_LE(plan.arena_bytes, limit);
    EXPECT_GE(plan.arena_bytes, outcome.lower_bound);
    EXPECT_EQ(setting.judge(plan), "") << limited.fits()->what;
    techniques.count(plan);
    EXPECT_EQ(plan::parse(plan::print(plan, setting.programs), setting.programs), plan);
  }
}

// Random changes to a plan are refused, or change no bit.
void check_broken(Setting& setting, const plan::Plan& plan, int changes, Techniques& techniques) {
  for (int change = 0; change < changes; ++change) {
    plan::Plan broken = plan;
    const std::string what = break_plan(broken, setting.programs, setting.random);
    if (!plan::validate(broken, setting.programs, setting.catalog()).ok()) {
      ++techniques.refused;
      continue;
    }
    ++techniques.accepted;
    ASSERT_EQ(setting.compare(broken), "") << what << "\n" << plan::print(broken, setting.programs);
  }
}

void check_spilled(Setting& setting, Techniques& techniques, int broken = 0) {
  plan::PlanOptions options = random_options(setting.random);
  options.least_moved = Bytes(setting.random.chance(50) ? 16 : 4);
  // Of images the values are moved, not computed again.
  if (broken > 0) options.recompute = options.saved_forms = false;
  const auto plan_within = [&](std::optional<Bytes> limit) {
    options.arena_limit = limit;
    return plan::make_spilled_plans(setting.programs, setting.catalog(), options, 1_MiB);
  };
  const std::optional<plan::SpilledPlans> all = plan_within(std::nullopt);
  ASSERT_TRUE(all.has_value());
  EXPECT_GE(all->smallest, all->lower_bound);
  std::vector<plan::FrontierPoint> points = all->frontier;
  if (points.size() > 3) points.erase(points.begin() + 1, points.end() - 2);
  double slowest = std::numeric_limits<double>::infinity();
  for (const plan::FrontierPoint& point : points) {
    EXPECT_LT(point.seconds, std::exchange(slowest, point.seconds));
    const std::optional<plan::SpilledPlans> limited = plan_within(point.arena_bytes);
    ASSERT_TRUE(limited && limited->fits);
    const plan::Plan& plan = limited->fits->plan;
    EXPECT_LE(plan.arena_bytes, point.arena_bytes);
    EXPECT_EQ(setting.judge(plan), "") << limited->fits->what;
    EXPECT_EQ(plan::parse(plan::print(plan, setting.programs), setting.programs), plan);
    techniques.count_moves(plan, setting.programs);
    techniques.count(plan);
    check_broken(setting, plan, broken, techniques);
  }
}

TEST(SpilledGraphs, PlansWithASpillFileGiveTheSameBits) {
  Techniques techniques;
  for (const std::string& backend : backend::computing_backends()) {
    for (uint64_t seed = 9000; seed < 9024; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " on " + backend);
      Setting setting(backend, seed);
      check_spilled(setting, techniques);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(techniques.in_file, 0);
  EXPECT_GT(techniques.in_loops, 0);
  EXPECT_GT(techniques.merged, 0);
  EXPECT_GT(techniques.moved, 0);
}

// Loops over the rows of one image, with windows that read rows of other iterations.
TEST(ImageRows, EveryPlanGivesTheSameBits) {
  Techniques techniques;
  for (const std::string& backend : backend::computing_backends()) {
    for (uint64_t seed = 20000; seed < 20040; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " on " + backend);
      Setting setting(backend, seed, {.one_image = true});
      ASSERT_EQ(setting.judge(setting.naive), "");
      check_planner(setting, techniques);
      check_spilled(setting, techniques, 4);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(techniques.over_rows, 0);
  EXPECT_GT(techniques.rows_moved, 0);
  EXPECT_GT(techniques.refused, 0);
}

// Statistics of groups of samples, of any size beside blocks of 1, 2, 4, …: slices never cut one.
TEST(BatchNormGroups, EveryPlanGivesTheSameBits) {
  Techniques techniques;
  int64_t sliced = 0;
  int64_t finite = 0;
  constexpr int64_t kSeeds = 40;
  for (const std::string& backend : backend::computing_backends()) {
    for (uint64_t seed = 30000; seed < 30000 + kSeeds; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " on " + backend);
      Setting setting(backend, seed, {.groups = true});
      ASSERT_EQ(graph::verify(setting.programs), std::nullopt);
      ASSERT_EQ(setting.judge(setting.naive), "");
      check_planner(setting, techniques);
      const plan::Plan loops = random_loops(setting.naive, setting.programs, setting.catalog(),
                                            setting.random, Bytes(64));
      EXPECT_EQ(setting.judge(loops), "") << plan::print(loops, setting.programs);
      for (const plan::Loop& loop : loops.programs[0].loops) {
        sliced += loop.axis == graph::kBatchAxis && loop.slice < loop.extent ? 1 : 0;
      }
      finite += is_finite(setting.expected) ? 1 : 0;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(sliced, kSeeds);
  EXPECT_GT(techniques.clones, 0);
  EXPECT_GE(finite, 2 * kSeeds * 9 / 10);
}

// Batches in lanes: of lengths that blocks do not divide, short and empty ones at their ends.
TEST(Lanes, EveryPlanGivesTheSameBits) {
  Techniques techniques;
  int64_t in_lanes = 0;
  int64_t finite = 0;
  constexpr int64_t kSeeds = 60;
  for (const std::string& backend : backend::computing_backends()) {
    for (uint64_t seed = 40000; seed < 40000 + kSeeds; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " on " + backend);
      Setting setting(backend, seed, {}, int64_t{2} << seed % 3);
      ASSERT_EQ(setting.judge(setting.naive), "");
      check_planner(setting, techniques);
      if (seed % 4 == 0) check_spilled(setting, techniques, 2);
      const plan::Plan loops = random_loops(setting.naive, setting.programs, setting.catalog(),
                                            setting.random, Bytes(64));
      EXPECT_EQ(setting.judge(loops), "") << plan::print(loops, setting.programs);
      in_lanes += loops.programs[0].lane > 0 ? 1 : 0;
      finite += is_finite(setting.expected) ? 1 : 0;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(in_lanes, kSeeds);
  EXPECT_GE(finite, 2 * kSeeds * 9 / 10);
}

TEST_P(RandomGraphs, EveryValidPlanGivesTheSameBits) {
  uint64_t finite = 0;
  Techniques techniques;
  const Shard& shard = GetParam();
  for (uint64_t seed = shard.first; seed < shard.first + shard.count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Setting setting(shard.backend, seed);
    const std::optional<std::string> problem = graph::verify(setting.programs);
    ASSERT_FALSE(problem.has_value()) << *problem;
    ASSERT_EQ(setting.judge(setting.naive), "");
    check_planner(setting, techniques);
    const plan::Plan loops =
        random_loops(setting.naive, setting.programs, setting.catalog(), setting.random, Bytes(64));
    EXPECT_EQ(setting.judge(loops), "") << plan::print(loops, setting.programs);
    if (HasFailure()) return;
    finite += is_finite(setting.expected) ? 1 : 0;
  }
  EXPECT_GE(finite, shard.count - shard.count / 10);
  // A saved form is rarer than a shard; the first shard has both.
  EXPECT_GT(techniques.forms + techniques.clones, 0);
  if (shard.first == 0) {
    EXPECT_GT(techniques.forms, 0);
    EXPECT_GT(techniques.clones, 0);
  }
  RecordProperty("forms", std::to_string(techniques.forms));
  RecordProperty("clones", std::to_string(techniques.clones));
}

TEST_P(RandomGraphs, AWrongPlanIsNeverAccepted) {
  Techniques techniques;
  const Shard& shard = GetParam();
  for (uint64_t seed = shard.first; seed < shard.first + shard.count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Setting setting(shard.backend, seed);
    const plan::Plan loops =
        random_loops(setting.naive, setting.programs, setting.catalog(), setting.random, Bytes(0));
    check_broken(setting, loops, 12, techniques);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(techniques.accepted, 0);
  EXPECT_GT(techniques.refused, techniques.accepted);
}

std::vector<Shard> shards() {
  std::vector<Shard> result;
  for (uint64_t first = 0; first < 1000; first += 50) result.push_back({"reference", first, 50});
  for (const std::string& backend : backend::computing_backends()) {
    if (backend == "reference") continue;
    for (uint64_t first = 0; first < 200; first += 20) result.push_back({backend, first, 20});
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::ValuesIn(shards()),
                         [](const ::testing::TestParamInfo<Shard>& info) {
                           return info.param.backend + "_" + std::to_string(info.param.first);
                         });

}  // namespace
}  // namespace plimsoll::property
