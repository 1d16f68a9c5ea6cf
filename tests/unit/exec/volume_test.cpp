#include <gtest/gtest.h>

#include "toys/count_allocations.h"
#include "unit/exec/toy_run.h"

// Loops over the depth and the rows of volumes give the bits of one pass over all.

namespace plimsoll::exec {
namespace {

plan::Plan make_plan(const graph::ProgramSet& programs, toys::ToyBackend& backend,
                     std::string_view text = toys::kVolumePlan) {
  plan::Plan plan = toys::parse_plan(text, programs, backend.catalog(), Bytes(64));
  const plan::Validation valid = plan::validate(plan, programs, backend.catalog());
  EXPECT_TRUE(valid.ok()) << valid.message;
  return plan;
}

TEST(Volumes, LoopsOverDepthAndRowsGiveTheSameBits) {
  const graph::ProgramSet programs = toys::parse_programs(toys::kVolumeProgram);
  for (const graph::Block& block : {graph::Block{1, 2, 1}, {2, 1, 2}, {2, 2, 2}}) {
    toys::ToyBackend backend;
    backend.toy_catalog().blocks = {
        {"b", block}, {"c", {1, 1}}, {"d", {2, 1, 2, 1}}, {"s", {2, 1}}, {"t", {2, 4}}};
    backend.toy_catalog().row_exact_nodes = {"a"};
    const plan::Plan naive = plan::naive_plan(programs, backend.catalog());
    const Result expected = run_plan(programs, naive, backend, {.poison = true}, 2);
    const Result received = run_plan(programs, make_plan(programs, backend), backend,
                                     {.poison = true, .spill_directory = ::testing::TempDir()}, 2);
    EXPECT_EQ(received, expected);
    bool any = false;
    for (float value : expected.outputs[0]) any |= value != 0.0F;
    EXPECT_TRUE(any);
  }
}

TEST(Volumes, AStepOverThemAllocatesNothing) {
  toys::ToyBackend backend;
  backend.toy_catalog().blocks = {{"a", {2, 2, 0, 0}}, {"b", {2, 2, 2}}, {"c", {2, 1}},
                                  {"d", {2, 1, 0, 0}}, {"s", {2, 1}},    {"t", {2, 4}}};
  const graph::ProgramSet programs = toys::parse_programs(toys::kVolumeProgram);
  const plan::Plan plan = make_plan(programs, backend);
  Executor executor(programs, plan, backend, {.spill_directory = ::testing::TempDir()});
  toys::ToySource source({8 * 6 * 3});
  toys::ToySink sink = make_sink(programs.programs[0]);
  executor.run(0, {}, &source, &sink);
  const int64_t before = toys::allocation_count();
  for (int step = 0; step < 20; ++step) executor.run(0, {.step = step}, &source, &sink);
  EXPECT_EQ(toys::allocation_count(), before);
}

}  // namespace
}  // namespace plimsoll::exec
