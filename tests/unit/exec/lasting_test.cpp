// Packed weights that are there still when a program runs again (plan/tree/lasting_packs.h).

#include <gtest/gtest.h>

#include <cstring>

#include "backend/kernel/backends.h"
#include "exec/executor.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "plan/tree/lasting_packs.h"
#include "plan/validate/validator.h"
#include "toys/toy_backend.h"
#include "unit/exec/toy_run.h"

namespace plimsoll::exec {
namespace {

constexpr int64_t kWidth = 16;
constexpr int64_t kLayers = 4;

// Layers in a row, each with a packed weight; where it `writes`, the first weight is changed.
graph::ProgramSet packed_layers(bool writes = false) {
  graph::GraphBuilder builder(ops::registry());
  const Dim width = Dim::constant(kWidth);
  graph::ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), width}});
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = "w" + std::to_string(layer);
    const graph::StateId w =
        builder.state({.name = name, .type = {DType::kFloat32, {width, width}}});
    const graph::ValueId value = builder.read(w);
    const graph::ValueId packed = builder.call(
        "pack", name + "/pack", {value}, {{"layout", "plain"}, {"bytes", kWidth * kWidth * 4}});
    x = builder.call("dense", "y" + std::to_string(layer), {x, packed}, {{"units", kWidth}});
    if (writes && layer == 0) {
      builder.write(w, builder.call("accumulate", name + "/twice", {value, value}));
    }
  }
  builder.output(x);
  graph::ProgramSet programs;
  programs.programs.push_back({"predict", builder.finish(), 2});
  return programs;
}

plan::Plan planned(const graph::ProgramSet& programs, const backend::Backend& backend,
                   const plan::PlanOptions& options = {}) {
  plan::PlanOutcome outcome = plan::make_plan(programs, backend.catalog(), options);
  plan::Plan plan = std::get<plan::Fits>(std::move(outcome.answer)).plan;
  const plan::Validation valid = plan::validate(plan, programs, backend.catalog());
  EXPECT_TRUE(valid.ok()) << valid.message;
  return plan;
}

size_t count_lasting(const graph::ProgramSet& programs, const plan::Plan& plan) {
  return plan::find_lasting_packs(plan.programs[0], programs.programs[0].graph).size();
}

class Predictions {
 public:
  Predictions(const graph::ProgramSet& programs, const plan::Plan& plan, backend::Backend& backend,
              const ExecutorOptions& options = {})
      : executor_(programs, plan, backend, options),
        source_({kWidth}),
        sink_(make_sink(programs.programs[0])) {
    fill_states(executor_, plan);
  }

  Executor& executor() { return executor_; }
  std::vector<float> run() {
    executor_.run(0, {}, &source_, &sink_);
    return sink_.outputs[0];
  }

 private:
  Executor executor_;
  toys::ToySource source_;
  toys::ToySink sink_;
};

TEST(LastingPacks, AreMadeOnceUntilAWeightIsWritten) {
  const auto backend = backend::make_backend("reference", {});
  const graph::ProgramSet programs = packed_layers();
  const plan::Plan plan = planned(programs, *backend);
  ASSERT_EQ(count_lasting(programs, plan), size_t{kLayers});
  Predictions predictions(programs, plan, *backend);
  // Taken before the first run: what is written through it later is not seen.
  const std::span<std::byte> weight = predictions.executor().state("w1");
  const std::vector<float> first = predictions.run();
  std::vector<std::byte> zeros(weight.size());
  std::memcpy(weight.data(), zeros.data(), zeros.size());
  EXPECT_EQ(predictions.run(), first);
  predictions.executor().write_state("w1", 0, zeros);
  EXPECT_EQ(predictions.run(), std::vector<float>(first.size()));
}

TEST(LastingPacks, GiveTheBitsOfPackingAnew) {
  const auto backend = backend::make_backend("reference", {});
  const graph::ProgramSet programs = packed_layers();
  const plan::Plan kept = planned(programs, *backend);
  const plan::Plan anew = planned(programs, *backend, {.keep_packs = false});
  EXPECT_LT(anew.arena_bytes, kept.arena_bytes);
  EXPECT_LT(count_lasting(programs, anew), size_t{kLayers});
  Predictions a(programs, kept, *backend);
  Predictions b(programs, anew, *backend);
  Predictions poisoned(programs, kept, *backend, {.poison = true});
  for (int run = 0; run < 3; ++run) {
    const std::vector<float> expected = b.run();
    EXPECT_EQ(a.run(), expected);
    EXPECT_EQ(poisoned.run(), expected);
  }
}

TEST(LastingPacks, AProgramThatWritesTheWeightPacksItAnew) {
  const auto backend = backend::make_backend("reference", {});
  const graph::ProgramSet programs = packed_layers(true);
  const plan::Plan plan = planned(programs, *backend);
  EXPECT_EQ(count_lasting(programs, plan), size_t{kLayers - 1});
  Predictions predictions(programs, plan, *backend);
  const std::vector<float> first = predictions.run();
  const std::vector<float> second = predictions.run();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(second[i], 2 * first[i]) << i;
}

TEST(LastingPacks, ALimitBelowThemPacksAnew) {
  const auto backend = backend::make_backend("reference", {});
  const graph::ProgramSet programs = packed_layers();
  const plan::Plan kept = planned(programs, *backend);
  const plan::Plan smaller =
      planned(programs, *backend, {.arena_limit = kept.arena_bytes - Bytes(1)});
  EXPECT_LT(smaller.arena_bytes, kept.arena_bytes);
  EXPECT_LT(count_lasting(programs, smaller), size_t{kLayers});
}

}  // namespace
}  // namespace plimsoll::exec
