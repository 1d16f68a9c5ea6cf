#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/kernel/backends.h"
#include "base/ranks.h"
#include "exec/executor.h"
#include "graph/ranks.h"
#include "layers/training/losses.h"
#include "layers/training/programs.h"
#include "ops/fuse/fuse.h"
#include "ops/fuse/rank_messages.h"
#include "ops/fuse/shards.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "plan/validate/validator.h"
#include "property/zero_source.h"
#include "toys/count_allocations.h"

// A step that ranks share takes nothing from the heap for what they exchange, and goes on while it
// is under way.

namespace plimsoll::property {
namespace {

using layers::Config;

// One of two ranks, whose neighbour sends zeros. They are there when it was asked so many times.
class QuietRanks final : public Ranks {
 public:
  explicit QuietRanks(int patience = 1) : patience_(patience) {}
  int rank() const noexcept override { return 0; }
  int count() const noexcept override { return 2; }
  void check() const override {}
  Sent sent() const noexcept override { return sent_; }

  int waited = 0;  // times that it would have been asked, had nobody waited

 private:
  void fail_all() noexcept override {}
  void begin_swap(const Swap& swap) noexcept override {
    sent_.count(swap.out.size());
    std::ranges::fill(swap.in, std::byte{0});
    left_ = patience_;
  }
  bool is_swapped(bool wait) noexcept override {
    if (!wait) return --left_ <= 0;
    waited += std::max(left_, 0);
    left_ = 0;
    return true;
  }

  Sent sent_;
  int patience_;
  int left_ = 0;
};

graph::ProgramSet shared_programs(int stage, bool beside) {
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
  train.graph = ops::join_rank_sums(train.graph, ops::registry(), {.bucket = 256, .sum = 128});
  if (beside) train.graph = ops::split_rank_sums(train.graph, ops::registry());
  return programs;
}

backend::StepContext context_of(const graph::Program& program, Ranks& ranks) {
  backend::StepContext context{.training = true, .ranks = &ranks};
  context.samples = program.share->samples;
  context.first_sample = program.share->first;
  context.samples_each = program.share->each;
  return context;
}

plan::Plan plan_of(const graph::ProgramSet& programs, const backend::Backend& backend) {
  const plan::PlanOutcome outcome =
      plan::make_plan(programs, backend.catalog(), {.max_steps = 1000, .gap = Bytes()});
  plan::Plan plan = outcome.fits()->plan;
  const plan::Validation valid = plan::validate(plan, programs, backend.catalog());
  EXPECT_TRUE(valid.ok()) << valid.message;
  return plan;
}

TEST(SharedSteps, AllocateNothing) {
  const auto backend = backend::make_backend("reference", {.threads = 1});
  for (int stage = 0; stage <= ops::kMostShardStage; ++stage) {
    for (const bool beside : {false, true}) {
      SCOPED_TRACE(stage);
      const graph::ProgramSet programs = shared_programs(stage, beside);
      const plan::Plan plan = plan_of(programs, *backend);
      exec::Executor executor(programs, plan, *backend);
      ZeroSource source(programs.programs[0].graph);
      NoSink sink;
      QuietRanks ranks;
      const backend::StepContext context = context_of(programs.programs[0], ranks);
      for (int step = 0; step < 3; ++step) executor.run(0, context, &source, &sink);
      const int64_t before = toys::allocation_count();
      const int64_t exchanged = ranks.sent().messages;
      for (int step = 0; step < 20; ++step) executor.run(0, context, &source, &sink);
      EXPECT_EQ(toys::allocation_count(), before);
      EXPECT_GT(ranks.sent().messages, exchanged);
    }
  }
}

TEST(SharedSteps, GoOnWhileSumsAreUnderWay) {
  const auto backend = backend::make_backend("reference", {.threads = 1});
  std::array<int, 2> waited{};
  std::array<Sent, 2> sent;
  for (const bool beside : {false, true}) {
    const graph::ProgramSet programs = shared_programs(0, beside);
    const plan::Plan plan = plan_of(programs, *backend);
    exec::Executor executor(programs, plan, *backend);
    ZeroSource source(programs.programs[0].graph);
    NoSink sink;
    QuietRanks ranks(2);
    executor.run(0, context_of(programs.programs[0], ranks), &source, &sink);
    waited[beside ? 1 : 0] = ranks.waited;
    sent[beside ? 1 : 0] = ranks.sent();
  }
  EXPECT_EQ(sent[1].messages, sent[0].messages);
  EXPECT_EQ(sent[1].bytes, sent[0].bytes);
  EXPECT_LT(waited[1], waited[0] - 4);
}

}  // namespace
}  // namespace plimsoll::property
