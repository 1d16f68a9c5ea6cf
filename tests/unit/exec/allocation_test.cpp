#include <gtest/gtest.h>
#include <malloc.h>

#include "toys/count_allocations.h"
#include "unit/exec/toy_run.h"

namespace plimsoll::exec {
namespace {

TEST(Allocations, AStepAllocatesNothing) {
  toys::ToyBackend backend;
  backend.toy_catalog().blocks = {{"h", {2, 2}}, {"sums", {2}}, {"g", {4, 2}}};
  const graph::ProgramSet programs = toys::parse_programs(toys::kTwoPhaseProgram);
  const plan::Plan plan = toys::parse_plan(toys::kTwoPhasePlan, programs, backend.catalog());
  Executor executor(programs, plan, backend);
  fill_states(executor, plan);
  toys::ToySource source({4});
  toys::ToySink sink = make_sink(programs.programs[0]);
  executor.run(0, {}, &source, &sink);
  const int64_t before = toys::allocation_count();
  const size_t heap = ::mallinfo2().uordblks;
  for (int step = 0; step < 1000; ++step) executor.run(0, {.step = step}, &source, &sink);
  EXPECT_EQ(toys::allocation_count(), before);
  EXPECT_LE(::mallinfo2().uordblks, heap);
}

TEST(Allocations, NorDoesATransfer) {
  toys::ToyBackend backend;
  const graph::ProgramSet programs = toys::parse_programs(R"(program train batch 4
input %x float32 (B, 16)
output %x
)");
  const plan::Plan plan = toys::parse_plan(R"(program train batch=4
instance %0 x
instance %1 x space=spill
instance %2 x
loop L0 batch extent=4 slice=2
  feed %0
  begin t0 %0 -> %1
  wait t0
end
loop L1 batch extent=4 slice=1
  begin t1 %1 -> %2
  wait t1
  output %2
end
)",
                                           programs, backend.catalog());
  ASSERT_TRUE(plan::validate(plan, programs, backend.catalog()).ok());
  Executor executor(programs, plan, backend, {.spill_directory = ::testing::TempDir()});
  toys::ToySource source({16});
  toys::ToySink sink({std::vector<float>(64)}, {16});
  executor.run(0, {}, &source, &sink);
  const int64_t before = toys::allocation_count();
  for (int step = 0; step < 20; ++step) executor.run(0, {.step = step}, &source, &sink);
  EXPECT_EQ(toys::allocation_count(), before);
}

}  // namespace
}  // namespace plimsoll::exec
