#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backend/kernel/backends.h"
#include "base/ranks.h"
#include "exec/executor.h"
#include "graph/ranks.h"
#include "layers/training/losses.h"
#include "layers/training/programs.h"
#include "ops/fuse/fuse.h"
#include "ops/fuse/shards.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "property/zero_source.h"
#include "toys/count_allocations.h"

// A step that ranks share takes nothing from the heap for what they exchange.

namespace plimsoll::property {
namespace {

using layers::Config;

// One of two ranks, whose neighbour sends zeros.
class QuietRanks final : public Ranks {
 public:
  int rank() const noexcept override { return 0; }
  int count() const noexcept override { return 2; }
  void swap(int, std::span<const std::byte> out, std::span<std::byte> in) noexcept override {
    swaps += out.empty() && in.empty() ? 0 : 1;
    std::ranges::fill(in, std::byte{0});
  }
  void check() const override {}

  int swaps = 0;
};

graph::ProgramSet shared_programs(int stage) {
  layers::Model model("shared", layers::ModelKind::kSequential);
  model.add_input(Config::Object{{"batch_shape", Config::Array{Config(), 24}}});
  model.append("Dense", Config::Object{{"units", 31}});
  model.append("BatchNormalization", Config::Object{});
  model.append("Dense", Config::Object{{"units", 10}, {"activation", "softmax"}});
  layers::CompileOptions compile;
  compile.optimizer = layers::parse_optimizer("adam(global_clipnorm=0.5)");
  compile.losses = {layers::parse_loss("SparseCategoricalCrossentropy")};
  graph::ProgramSet all = layers::build_programs(model, compile, {.train = 8}).set;
  graph::ProgramSet programs;
  for (graph::Program& program : all.programs) {
    if (program.name == "train") programs.programs.push_back(std::move(program));
  }
  graph::Program& train = programs.programs.at(0);
  train.lanes = 2;
  train.graph = ops::insert_rank_sums(train.graph, ops::registry(), train.batch);
  train.share = graph::share_of(train.batch, train.lanes, {0, 2});
  train.batch = graph::batch_of(*train.share);
  const ops::ShardOptions options{.ranks = 2, .stage = stage, .least = 2};
  const std::vector<ops::ShardedState> sharded = ops::find_sharded_states(programs, options);
  EXPECT_EQ(sharded.empty(), stage == 0);
  train.graph = ops::insert_shards(train.graph, ops::registry(), sharded, options);
  return programs;
}

TEST(SharedSteps, AllocateNothing) {
  const auto backend = backend::make_backend("reference", {.threads = 1});
  for (int stage = 0; stage <= ops::kMostShardStage; ++stage) {
    SCOPED_TRACE(stage);
    const graph::ProgramSet programs = shared_programs(stage);
    const plan::PlanOutcome outcome =
        plan::make_plan(programs, backend->catalog(), {.max_steps = 1000, .gap = Bytes()});
    const plan::Plan plan = outcome.fits()->plan;
    exec::Executor executor(programs, plan, *backend);
    ZeroSource source(programs.programs[0].graph);
    NoSink sink;
    QuietRanks ranks;
    backend::StepContext context{.training = true, .ranks = &ranks};
    context.samples = programs.programs[0].share->samples;
    context.first_sample = programs.programs[0].share->first;
    context.samples_each = programs.programs[0].share->each;
    for (int step = 0; step < 3; ++step) executor.run(0, context, &source, &sink);
    const int64_t before = toys::allocation_count();
    const int exchanged = ranks.swaps;
    for (int step = 0; step < 20; ++step) executor.run(0, context, &source, &sink);
    EXPECT_EQ(toys::allocation_count(), before);
    EXPECT_GT(ranks.swaps, exchanged);
  }
}

}  // namespace
}  // namespace plimsoll::property
