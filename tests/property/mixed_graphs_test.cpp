#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/kernel/backends.h"
#include "graph/verify.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "plan/validate/validator.h"
#include "property/compare_runs.h"
#include "property/random_network.h"
#include "property/random_plan.h"

// Random networks whose values are bfloat16: a value has the same bits whether it is kept, kept as
// bits or computed again, so every valid plan gives those of the naive one.

namespace plimsoll::property {
namespace {

struct Setting {
  std::unique_ptr<backend::Backend> backend;
  graph::ProgramSet programs;
  plan::Plan naive;
};

Setting make_setting(const std::string& name, uint64_t seed, Random& random) {
  backend::KernelSetOptions options{.threads = random.chance(50) ? 1 : 2};
  if (random.chance(60)) options.caps.emplace_back("batch", int64_t{1} << random.between(0, 2));
  if (random.chance(30)) options.caps.emplace_back("units", 2);
  Setting setting{
      backend::make_backend(name, options),
      random_network(seed, {.one_image = seed % 5 == 4, .mixed = true, .groups = seed % 3 == 2}),
      {}};
  ops::Offers offers = setting.backend->offers();
  if (seed % 2 == 0) offers.dense_update = Bytes(1);  // as random_graphs_test.cpp has it
  offers.dense_update_rows = 0;
  for (graph::Program& program : setting.programs.programs) {
    program.graph = ops::fuse(program.graph, ops::registry(), offers, 0);
    program.graph = ops::insert_packs(program.graph, ops::registry(),
                                      [&](const graph::Graph& graph, graph::NodeId node) {
                                        return setting.backend->packs(graph, node);
                                      });
  }
  setting.naive = plan::naive_plan(setting.programs, setting.backend->catalog());
  return setting;
}

int64_t count_bf16(const graph::ProgramSet& programs) {
  int64_t count = 0;
  for (const graph::Program& program : programs.programs) {
    for (const graph::Value& value : program.graph.values) {
      count += value.type.dtype == DType::kBFloat16 ? 1 : 0;
    }
  }
  return count;
}

// How often plans kept a value in a smaller form, or computed it again.
int64_t count_techniques(const plan::Plan& plan) {
  int64_t count = 0;
  for (const plan::ProgramPlan& program : plan.programs) {
    for (const plan::Instance& instance : program.instances) {
      count += !instance.form.empty() || instance.copy > 0 ? 1 : 0;
    }
  }
  return count;
}

class MixedGraphs : public ::testing::TestWithParam<std::string> {};

TEST_P(MixedGraphs, EveryValidPlanGivesTheSameBits) {
  constexpr uint64_t kNetworks = 30;
  int64_t techniques = 0;
  uint64_t finite = 0;
  for (uint64_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed + 77);
    const Setting setting = make_setting(GetParam(), seed, random);
    ASSERT_EQ(graph::verify(setting.programs), std::nullopt);
    EXPECT_GT(count_bf16(setting.programs), 4);
    const graph::KernelCatalog& catalog = setting.backend->catalog();
    const auto run = [&](const plan::Plan& plan) {
      return run_programs(setting.programs, plan, *setting.backend, usual_order(setting.programs),
                          {.poison = true});
    };
    const Results expected = run(setting.naive);
    float loss = 0;
    std::memcpy(&loss, expected.at("train/0/0").data(), sizeof(loss));
    finite += std::isfinite(loss) ? 1 : 0;
    const auto expect_same = [&](const plan::Plan& plan) {
      ASSERT_TRUE(plan::validate(plan, setting.programs, catalog).ok());
      EXPECT_EQ(first_difference(expected, run(plan)), "");
      techniques += count_techniques(plan);
    };
    plan::PlanOptions options{.max_steps = 4000, .gap = Bytes(64)};
    const plan::PlanOutcome free = plan::make_plan(setting.programs, catalog, options);
    ASSERT_NE(free.fits(), nullptr);
    expect_same(free.fits()->plan);
    options.arena_limit = free.smallest;
    const plan::PlanOutcome least = plan::make_plan(setting.programs, catalog, options);
    ASSERT_NE(least.fits(), nullptr);
    expect_same(least.fits()->plan);
    expect_same(random_loops(setting.naive, setting.programs, catalog, random, Bytes(64)));
    if (HasFailure()) return;
  }
  EXPECT_GT(techniques, 0);
  EXPECT_GE(finite, kNetworks - kNetworks / 10);
}

// Those of this build that compute.
INSTANTIATE_TEST_SUITE_P(Backends, MixedGraphs, ::testing::ValuesIn(backend::computing_backends()));

}  // namespace
}  // namespace plimsoll::property
