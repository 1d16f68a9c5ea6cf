// Sums over lanes of the batch (graph/lanes.h): folds and joins, at every way to loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>

#include "backend/kernel/backends.h"
#include "exec/executor.h"
#include "graph/builder.h"
#include "graph/lanes.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "plan/validate/validator.h"
#include "toys/toy_backend.h"
#include "unit/exec/toy_run.h"

namespace plimsoll::exec {
namespace {

constexpr int64_t kWidth = 3;

// Rows of one input, from a row on.
class Rows final : public InputSource {
 public:
  Rows(std::vector<float> values, int64_t first) : values_(std::move(values)), first_(first) {}
  void fill(int, int64_t begin, int64_t count, void* target) override {
    std::memcpy(target, values_.data() + (first_ + begin) * kWidth,
                static_cast<size_t>(count * kWidth) * sizeof(float));
  }

 private:
  std::vector<float> values_;
  int64_t first_;
};

// Numbers whose sums depend on the order.
std::vector<float> numbers(int64_t rows) {
  std::vector<float> values(static_cast<size_t>(rows * kWidth));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 1.7F) * std::exp(static_cast<float>(i % 7));
  }
  return values;
}

// The sum of rows, and the mean and squared differences of each channel.
graph::ProgramSet sums(int64_t batch, int64_t lanes) {
  graph::GraphBuilder builder(ops::registry());
  const graph::ValueId x =
      builder.input("x", {DType::kFloat32, {Dim::batch(), Dim::constant(kWidth)}});
  builder.output(builder.call("bias_grad", "sum", {x}));
  builder.output(builder.call("channel_moments", "moments", {x}));
  graph::ProgramSet programs;
  programs.programs.push_back({"train", builder.finish(), batch, lanes});
  return programs;
}

using Sums = std::vector<std::vector<float>>;

Sums run(const graph::ProgramSet& programs, const plan::Plan& plan, backend::Backend& backend,
         int64_t first = 0) {
  const plan::Validation valid = plan::validate(plan, programs, backend.catalog());
  EXPECT_TRUE(valid.ok()) << valid.message;
  Executor executor(programs, plan, backend, {.poison = true});
  Rows source(numbers(first + programs.programs[0].batch), first);
  toys::ToySink sink = make_sink(programs.programs[0]);
  executor.run(0, {}, &source, &sink);
  return sink.outputs;
}

plan::Plan planned(const graph::ProgramSet& programs, const backend::Backend& backend,
                   std::optional<Bytes> limit = {}) {
  plan::PlanOptions options;
  options.arena_limit = limit;
  plan::PlanOutcome outcome = plan::make_plan(programs, backend.catalog(), options);
  return std::get<plan::Fits>(std::move(outcome.answer)).plan;
}

std::unique_ptr<backend::Backend> blocks_of(const std::string& name, int64_t samples) {
  return backend::make_backend(
      name, {.threads = 1, .block_set = 0, .caps = {{std::string(graph::kBatchAxis), samples}}});
}

// The sum of lanes from the first of `of`, which is half of a tree of so many; those that are not
// there have no place in it.
std::vector<float> tree_sum(std::span<const std::vector<float>> of, size_t lanes) {
  if (lanes == 1 || of.size() == 1) return of[0];
  const size_t half = lanes / 2;
  if (of.size() <= half) return tree_sum(of, half);
  std::vector<float> sum = tree_sum(of.first(half), half);
  const std::vector<float> other = tree_sum(of.subspan(half), half);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  return sum;
}

class LaneSums : public ::testing::TestWithParam<std::string> {};

// A lane by itself is a batch of its own: their sums, added up by hand, are those of all lanes.
TEST_P(LaneSums, AreThoseOfEachLaneAddedUp) {
  for (const auto& [batch, lanes] :
       {std::pair<int64_t, int64_t>{16, 4}, {19, 4}, {19, 8}, {5, 4}}) {
    SCOPED_TRACE(std::to_string(batch) + " in " + std::to_string(lanes));
    const auto backend = blocks_of(GetParam(), 2);
    const graph::ProgramSet programs = sums(batch, lanes);
    const Sums all = run(programs, planned(programs, *backend), *backend);
    const int64_t length = graph::lane_length(batch, lanes);
    std::vector<std::vector<float>> each;
    for (int64_t first = 0; first < batch; first += length) {
      const graph::ProgramSet own = sums(std::min(length, batch - first), 1);
      each.push_back(run(own, planned(own, *backend), *backend, first)[0]);
    }
    EXPECT_EQ(all[0], tree_sum(each, static_cast<size_t>(lanes)));
  }
}

TEST_P(LaneSums, HaveTheMomentsOfTheWholeBatch) {
  const auto backend = blocks_of(GetParam(), 2);
  const graph::ProgramSet programs = sums(19, 4);
  const Sums all = run(programs, planned(programs, *backend), *backend);
  const std::vector<float> values = numbers(19);
  for (int64_t c = 0; c < kWidth; ++c) {
    double mean = 0;
    double m2 = 0;
    for (int64_t i = 0; i < 19; ++i) mean += values[static_cast<size_t>(i * kWidth + c)] / 19.0;
    for (int64_t i = 0; i < 19; ++i) {
      m2 += std::pow(values[static_cast<size_t>(i * kWidth + c)] - mean, 2);
    }
    EXPECT_NEAR(all[1][static_cast<size_t>(c)], mean, 1e-5 * std::sqrt(m2));
    EXPECT_NEAR(all[1][static_cast<size_t>(kWidth + c)], m2, 1e-5 * m2);
  }
}

TEST_P(LaneSums, AreTheSameAtEveryLimit) {
  const auto backend = blocks_of(GetParam(), 2);
  for (const int64_t batch : {640, 500, 190}) {
    const graph::ProgramSet programs = sums(batch, 4);
    plan::PlanOutcome outcome = plan::make_plan(programs, backend->catalog(), {});
    const Sums expected = run(programs, outcome.fits()->plan, *backend);
    EXPECT_LT(outcome.smallest, outcome.fits()->plan.arena_bytes);
    const plan::Plan smallest = planned(programs, *backend, outcome.smallest);
    EXPECT_FALSE(smallest.programs[0].loops.empty());
    EXPECT_EQ(run(programs, smallest, *backend), expected);
  }
}

// Blocks of one lane are no blocks of another's rows: the order of a sum changes with the lanes.
TEST_P(LaneSums, DependOnTheLanes) {
  const auto backend = blocks_of(GetParam(), 2);
  const graph::ProgramSet one = sums(64, 1);
  const graph::ProgramSet four = sums(64, 4);
  EXPECT_NE(run(one, planned(one, *backend), *backend),
            run(four, planned(four, *backend), *backend));
}

// What the validator refuses of a plan with lanes.
class BrokenLanes : public ::testing::Test {
 protected:
  BrokenLanes() : plan_(planned(programs_, *backend_, smallest())) {
    EXPECT_FALSE(plan_.programs[0].loops.empty());
    EXPECT_EQ(verdict(), plan::Verdict::kValid);
  }

  plan::Verdict verdict() const {
    return plan::validate(plan_, programs_, backend_->catalog()).verdict;
  }
  Bytes smallest() const { return plan::make_plan(programs_, backend_->catalog(), {}).smallest; }
  plan::Instance& sum() {
    for (plan::Instance& instance : plan_.programs[0].instances) {
      const graph::Value& value = programs_.programs[0].graph.value(instance.value);
      if (value.kind == graph::ValueKind::kNode) return instance;
    }
    throw std::logic_error("a plan without a sum");
  }

  graph::ProgramSet programs_ = sums(50, 4);
  std::unique_ptr<backend::Backend> backend_ = blocks_of("reference", 2);
  plan::Plan plan_;
};

TEST_F(BrokenLanes, AnotherNumberOfThem) {
  plan_.lanes = 8;
  EXPECT_EQ(verdict(), plan::Verdict::kWrongProgram);
}

TEST_F(BrokenLanes, LanesOfAnotherLength) {
  plan_.programs[0].lane = 0;
  EXPECT_EQ(verdict(), plan::Verdict::kWrongProgram);
}

TEST_F(BrokenLanes, NoRoomForPartialSums) {
  sum().bytes = Bytes(kWidth * 4);
  EXPECT_EQ(verdict(), plan::Verdict::kWrongSize);
}

TEST_F(BrokenLanes, SlicesThatCutBlocks) {
  plan_.programs[0].loops[0].slice = 3;
  EXPECT_NE(verdict(), plan::Verdict::kValid);
}

INSTANTIATE_TEST_SUITE_P(Backends, LaneSums, ::testing::ValuesIn(backend::computing_backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace plimsoll::exec
