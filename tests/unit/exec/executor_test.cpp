#include "exec/executor.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "exec/measure.h"
#include "plan/tree/complete.h"
#include "unit/exec/toy_run.h"

namespace plimsoll::exec {
namespace {

using graph::kWholeAxis;

// Plans `text` for `program`, validates it, runs it and the naive plan, and expects the same bits.
void expect_like_naive(toys::ToyBackend& backend, std::string_view program, std::string_view text,
                       const ExecutorOptions& options = {.poison = true}) {
  const graph::ProgramSet programs = toys::parse_programs(program);
  const plan::Plan plan = toys::parse_plan(text, programs, backend.catalog(), Bytes(64));
  const plan::Validation valid = plan::validate(plan, programs, backend.catalog());
  ASSERT_TRUE(valid.ok()) << valid.message;
  const plan::Plan naive = plan::naive_plan(programs, backend.catalog());
  const plan::Validation naive_valid = plan::validate(naive, programs, backend.catalog());
  ASSERT_TRUE(naive_valid.ok()) << naive_valid.message;
  const Result expected = run_plan(programs, naive, backend, {.poison = true}, 2);
  const Result received = run_plan(programs, plan, backend, options, 2);
  EXPECT_EQ(received, expected);
  bool any = false;
  for (const auto& output : expected.outputs) {
    for (float value : output) any |= value != 0.0F;
  }
  EXPECT_TRUE(any);
}

TEST(Executor, ComputesWhatTheGraphSays) {
  toys::ToyBackend backend;
  const graph::ProgramSet programs = toys::parse_programs(R"(program train batch 2
input %x float32 (B, 2)
state %w float32 (2, 2) weight
node y lines (%x, %w) -> (%y float32 (B, 2)) {} forward
output %y
)");
  const plan::Plan plan = plan::naive_plan(programs, backend.catalog());
  Executor executor(programs, plan, backend);
  const float weights[] = {1, 2, 3, 4};
  std::memcpy(executor.state("w").data(), weights, sizeof(weights));
  toys::ToySource source({2});
  float x[4];
  source.fill(0, 0, 2, x);
  toys::ToySink sink({std::vector<float>(4)}, {2});
  executor.run(0, {}, &source, &sink);
  const std::vector<float> expected = {x[0] * 1 + x[1] * 3, x[0] * 2 + x[1] * 4,
                                       x[2] * 1 + x[3] * 3, x[2] * 2 + x[3] * 4};
  EXPECT_EQ(sink.outputs[0], expected);
}

TEST(Executor, TwoPhasesWithBitsAndUpdateInPlace) {
  for (int64_t h : {1, 2, 4}) {
    toys::ToyBackend backend;
    backend.toy_catalog().blocks = {{"h", {h, 2}}, {"sums", {2}}, {"g", {4, 2}}};
    expect_like_naive(backend, toys::kTwoPhaseProgram, toys::kTwoPhasePlan);
  }
}

TEST(Executor, TailsAtBatch7) {
  std::string program(toys::kTwoPhaseProgram);
  program.replace(program.find("batch 8"), 7, "batch 7");
  std::string text(toys::kTwoPhasePlan);
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"batch=8", "batch=7"},
                                 {"extent=8", "extent=7"},
                                 {"extent=8", "extent=7"}}) {
    text.replace(text.find(from), from.size(), to);
  }
  toys::ToyBackend backend;
  backend.toy_catalog().blocks = {{"h", {2, kWholeAxis}}, {"sums", {4}}, {"g", {4, 2}}};
  expect_like_naive(backend, program, text);
}

constexpr std::string_view kUnits = R"(program train batch 8
input %x float32 (B, 4)
state %w float32 (4, 6) weight
node y lines (%x, %w) -> (%y float32 (B, 6)) {} forward
node s row_sum (%y) -> (%s float32 (B)) {} forward
node all grand_total (%y) -> (%all float32 ()) {} forward
output %s
output %all
)";

TEST(Executor, NestedLoopsOverTwoAxesAndAClone) {
  toys::ToyBackend backend;
  backend.toy_catalog().blocks = {{"y", {2, 2}}, {"s", {1, 2}}, {"all", {2, 4}}};
  expect_like_naive(backend, kUnits, R"(program train batch=8
instance %0 x
instance %1 w
instance %2 y
instance %3 s
instance %4 all
instance %5 y copy=1
loop L0 batch extent=8 slice=4
  feed %0
  loop L1 units extent=6 slice=4
    loop L2 batch extent=4 slice=2
      call y (%0 %1) -> (%2)
      call s (%2) -> (%3)
    end
  end
  output %3
  call y (%0 %1) -> (%5) clone=1
  loop L3 batch extent=4 slice=2
    loop L4 units extent=6 slice=4
      call all (%5) -> (%4)
    end
  end
end
output %4
)");
}

TEST(Executor, LoopsBoundToAxesOfOtherNames) {
  constexpr std::string_view kProgram = R"(program train batch 4
input %x float32 (B, 6)
node s row_sum (%x) -> (%s float32 (B)) {} forward
node b backward_sum (%x) -> (%b float32 (B)) {} forward
output %s
output %b
)";
  toys::ToyBackend backend;
  backend.toy_catalog().blocks = {{"s", {2, 2}}, {"b", {2, 2}}};
  expect_like_naive(backend, kProgram, R"(program train batch=4
instance %0 x
instance %1 s
instance %2 b
feed %0
loop L0 columns extent=6 slice=2
  call s (%0) -> (%1) bind=L0:units
end
call b (%0) -> (%2)
output %1
output %2
)");
}

TEST(Executor, WindowsClippedAtTheEdges) {
  constexpr std::string_view kProgram = R"(program train batch 3
input %x float32 (B, 8)
node a smooth (%x) -> (%a float32 (B, 8)) {} forward
node b smooth (%a) -> (%b float32 (B, 8)) {} forward
output %b
)";
  constexpr std::string_view kPlan = R"(program train batch=3
instance %0 x
instance %1 a
instance %2 b
feed %0
loop L0 rows extent=8 slice=SLICE
  call a (%0) -> (%1)
end
loop L1 batch extent=3 slice=1
  loop L2 rows extent=8 slice=2
    call b (%1) -> (%2)
  end
  output %2
end
)";
  for (const auto& [slice, exact] : {std::pair<const char*, bool>{"4", false}, {"3", true}}) {
    toys::ToyBackend backend;
    backend.toy_catalog().blocks = {{"a", {2, 4}}, {"b", {1, 2}}};
    if (exact) backend.toy_catalog().row_exact_nodes = {"a"};
    std::string text(kPlan);
    text.replace(text.find("SLICE"), 5, slice);
    expect_like_naive(backend, kProgram, text);
  }
}

constexpr std::string_view kChain = R"(program train batch 6
input %x float32 (B, 6)
state %w float32 (6, 5) weight
node a scale (%x) -> (%a float32 (B, 6)) {factor=2.0} forward
node y lines (%a, %w) -> (%y float32 (B, 5)) {} forward
node b scale (%y) -> (%b float32 (B, 5)) {factor=3.0} forward
node c accumulate (%b, %y) -> (%c float32 (B, 5)) {} forward
node d gate (%c, %y) -> (%d float32 (B, 5)) {} forward
output %d
)";

TEST(Executor, ValuesAndFormsMovedToAFileAndBack) {
  // %y is cut along its units where it moves, so that its pieces are not contiguous.
  toys::ToyBackend backend;
  backend.toy_catalog().blocks = {{"y", {2, 2}}};
  expect_like_naive(backend, kChain, R"(program train batch=6
instance %0 x
instance %1 a in_place=%0
instance %2 w
instance %3 y
instance %4 y space=spill
instance %5 y
instance %6 b
instance %7 y form=positive_bits
instance %8 y form=positive_bits space=spill
instance %9 y form=positive_bits
instance %10 c scope=root in_place=%6
instance %11 d scope=root in_place=%10
loop L0 batch extent=6 slice=4
  feed %0
  call a (%0) -> (%1)
  loop L1 units extent=5 slice=2
    call y (%1 %2) -> (%3)
    begin t0 %3 -> %4
    wait t0
  end
  encode positive_bits %3 -> %7
  begin t3 %7 -> %8
  call b (%3) -> (%6)
  wait t3
end
loop L2 batch extent=6 slice=3
  begin t1 %4 -> %5
  begin t2 %8 -> %9
  wait t1
  wait t2
  call c (%6 %5) -> (%10)
  call d (%10 %9) -> (%11)
  output %11
end
)",
                    {.poison = true, .spill_directory = ::testing::TempDir()});
}

TEST(Executor, ASpillFileNeedsAFolder) {
  toys::ToyBackend backend;
  const graph::ProgramSet programs = toys::parse_programs(R"(program train batch 2
input %x float32 (B, 2)
output %x
)");
  const plan::Plan plan = toys::parse_plan(R"(program train batch=2
instance %0 x
instance %1 x space=spill
instance %2 x
feed %0
begin t0 %0 -> %1
wait t0
begin t1 %1 -> %2
wait t1
output %2
)",
                                           programs, backend.catalog());
  ASSERT_TRUE(plan::validate(plan, programs, backend.catalog()).ok());
  EXPECT_THROW(Executor(programs, plan, backend), Error);
  Executor executor(programs, plan, backend, {.spill_directory = ::testing::TempDir()});
  toys::ToySource source({2});
  toys::ToySink sink({std::vector<float>(4)}, {2});
  executor.run(0, {}, &source, &sink);
  float x[4];
  source.fill(0, 0, 2, x);
  EXPECT_EQ(sink.outputs[0], std::vector<float>(x, x + 4));
}

TEST(Executor, ViewsShareMemoryOrAreCopied) {
  constexpr std::string_view kProgram = R"(program train batch 4
input %x float32 (B, 2, 3)
node a scale (%x) -> (%a float32 (B, 2, 3)) {factor=2.0} forward
node v flat (%a) -> (%v float32 (B, 6)) {} forward
node s row_sum (%v) -> (%s float32 (B)) {} forward
output %s
)";
  for (const char* in_place : {"", " in_place=%1"}) {
    toys::ToyBackend backend;
    expect_like_naive(backend, kProgram, std::string(R"(program train batch=4
instance %0 x
instance %1 a in_place=%0
instance %2 v)") + in_place + R"(
instance %3 s
loop L0 batch extent=4 slice=2
  feed %0
  call a (%0) -> (%1)
  call v (%1) -> (%2)
  call s (%2) -> (%3)
end
output %3
)");
  }
}

TEST(Executor, ProgramsShareStateAndArena) {
  constexpr std::string_view kPrograms = R"(program train batch 4
input %x float32 (B, 3)
state %w float32 (3) weight trainable
node s total (%x) -> (%s float32 (3)) {} forward
node w2 descend (%w, %s) -> (%w2 float32 (3)) {} update
node write state_write (%w2) -> () {} writes=w update
program evaluate batch 3
input %x float32 (B, 3)
state %w float32 (3) weight trainable
node y shift (%x, %w) -> (%y float32 (B, 3)) {} forward
output %y
)";
  toys::ToyBackend backend;
  const graph::ProgramSet programs = toys::parse_programs(kPrograms);
  const plan::Plan plan = plan::naive_plan(programs, backend.catalog());
  const plan::Validation valid = plan::validate(plan, programs, backend.catalog());
  ASSERT_TRUE(valid.ok()) << valid.message;
  Executor executor(programs, plan, backend, {.poison = true});
  fill_states(executor, plan);
  toys::ToySource source({3});
  toys::ToySink sink({std::vector<float>(9)}, {3});
  float weights[3];
  std::memcpy(weights, executor.state("w").data(), sizeof(weights));
  float x[12];
  source.fill(0, 0, 4, x);
  for (int j = 0; j < 3; ++j) weights[j] -= (((x[j] + x[3 + j]) + x[6 + j]) + x[9 + j]) / 16;
  executor.run(0, {}, &source, nullptr);
  executor.run(1, {}, &source, &sink);
  EXPECT_EQ(std::memcmp(weights, executor.state("w").data(), sizeof(weights)), 0);
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(sink.outputs[0][static_cast<size_t>(i)], x[i] + weights[i % 3] / 8);
  }
}

TEST(Executor, AnUnknownStateIsNamed) {
  toys::ToyBackend backend;
  const graph::ProgramSet programs = toys::parse_programs(toys::kTwoPhaseProgram);
  const plan::Plan plan = plan::naive_plan(programs, backend.catalog());
  Executor executor(programs, plan, backend);
  try {
    executor.state("ww");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_NE(error.message().find("\"w\""), std::string::npos) << error.message();
  }
}

class FailingSource final : public InputSource {
 public:
  void fill(int, int64_t row_begin, int64_t, void*) override {
    if (row_begin > 0) throw Error(ErrorKind::kData, "the file ends here");
  }
};

TEST(Executor, ErrorsOfTheSourceComeOutOfRun) {
  toys::ToyBackend backend;
  const graph::ProgramSet programs = toys::parse_programs(toys::kTwoPhaseProgram);
  const plan::Plan plan = toys::parse_plan(toys::kTwoPhasePlan, programs, backend.catalog());
  Executor executor(programs, plan, backend);
  FailingSource source;
  toys::ToySink sink = make_sink(programs.programs[0]);
  EXPECT_THROW(executor.run(0, {}, &source, &sink), Error);
}

TEST(Executor, TouchesThePagesOfItsIntervalsAndNoOthers) {
  // Wide rows, so that buffers have pages of their own; a gap of two pages after each.
  std::string program(toys::kTwoPhaseProgram);
  for (size_t at = 0; (at = program.find("6)", at)) != std::string::npos;) {
    program.replace(at, 2, "3000)");
  }
  toys::ToyBackend backend;
  const graph::ProgramSet programs = toys::parse_programs(program);
  const plan::Plan plan =
      toys::parse_plan(toys::kTwoPhasePlan, programs, backend.catalog(), Bytes(8192 + 64));
  ASSERT_TRUE(plan::validate(plan, programs, backend.catalog()).ok());
  Executor executor(programs, plan, backend);
  EXPECT_EQ(executor.arena_bytes(), plan.arena_bytes);
  EXPECT_EQ(executor.measured_arena_bytes(), Bytes(0));
  fill_states(executor, plan);
  toys::ToySource source({4});
  toys::ToySink sink = make_sink(programs.programs[0]);
  executor.run(0, {}, &source, &sink);
  const size_t ran[] = {0};
  const TouchedPages pages = measure_touched(executor, plan, ran);
  EXPECT_GT(pages.expected, 20);
  EXPECT_EQ(pages.missing, 0);
  EXPECT_EQ(pages.unplanned, 0);
  EXPECT_LE(executor.measured_arena_bytes(), plan.arena_bytes);
  EXPECT_GT(executor.overhead_bytes(), Bytes(1000));
}

}  // namespace
}  // namespace plimsoll::exec
