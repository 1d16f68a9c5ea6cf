#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>

#include "backend/backends.h"
#include "base/file.h"
#include "base/tensor_io.h"
#include "exec/measure.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "plan/planner.h"
#include "plan/validator.h"
#include "toys/count_allocations.h"

// What a step costs beside its arithmetic: no allocation, no heap that grows, and exactly the pages
// that the plan says.

namespace plimsoll::property {
namespace {

// Zeros are as good as anything here: features and labels.
class ZeroSource final : public InputSource {
 public:
  explicit ZeroSource(const graph::Graph& graph) {
    for (graph::ValueId input : graph.inputs) {
      const graph::ValueType& type = graph.value(input).type;
      row_bytes_.push_back(row_bytes(type.dtype, type.shape).size());
    }
  }
  void fill(int input, int64_t, int64_t row_count, void* destination) override {
    std::memset(destination, 0,
                row_bytes_[static_cast<size_t>(input)] * static_cast<size_t>(row_count));
  }

 private:
  std::vector<size_t> row_bytes_;
};

class NoSink final : public OutputSink {
 public:
  void take(int, int64_t, int64_t, const void*) override {}
};

class Steps : public ::testing::TestWithParam<std::string> {
 protected:
  Steps()
      : backend_(backend::make_backend(GetParam(), {.threads = 1, .block_set = 0, .caps = {}})) {
    programs_ = graph::parse_programs(
        read_text_file("golden/hand_plans/convolutions.graph", 1 << 20), ops::registry());
    programs_.programs[0].batch = 128;
  }
  plan::Plan plan(std::optional<Bytes> limit) {
    plan::PlanOutcome outcome = plan::make_plan(
        programs_, backend_->catalog(), {.arena_limit = limit, .max_steps = 5000, .gap = Bytes()});
    smallest_ = outcome.smallest;
    const plan::Plan plan = outcome.fits()->plan;
    EXPECT_TRUE(plan::validate(plan, programs_, backend_->catalog()).ok());
    return plan;
  }

  std::unique_ptr<backend::Backend> backend_;
  graph::ProgramSet programs_;
  Bytes smallest_;
};

TEST_P(Steps, AllocateNothing) {
  const plan::Plan free_plan = plan({});
  exec::Executor executor(programs_, free_plan, *backend_);
  ZeroSource source(programs_.programs[0].graph);
  NoSink sink;
  for (int step = 0; step < 3; ++step) executor.run(0, {.step = step}, &source, &sink);
  const int64_t before = toys::allocation_count();
  const size_t heap = ::mallinfo2().uordblks;
  for (int step = 0; step < 50; ++step) executor.run(0, {.step = step}, &source, &sink);
  // A vendor's library may allocate in a call, and must free it again.
  if (GetParam() == "reference") {
    EXPECT_EQ(toys::allocation_count(), before);
  }
  EXPECT_LE(::mallinfo2().uordblks, heap);
}

TEST_P(Steps, TouchThePagesOfThePlan) {
  (void)plan({});
  for (const std::optional<Bytes>& limit :
       {std::optional<Bytes>(), std::optional<Bytes>(smallest_)}) {
    const plan::Plan chosen = plan(limit);
    exec::Executor executor(programs_, chosen, *backend_);
    ZeroSource source(programs_.programs[0].graph);
    NoSink sink;
    executor.run(0, {}, &source, &sink);
    const size_t ran[] = {0};
    const exec::TouchedPages pages = exec::measure_touched(executor, chosen, ran);
    EXPECT_GE(pages.expected, 3);
    EXPECT_EQ(pages.missing, 0) << chosen.arena_bytes.count();
    EXPECT_EQ(pages.unplanned, 0) << chosen.arena_bytes.count();
    EXPECT_LE(executor.measured_arena_bytes(), chosen.arena_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Steps, ::testing::ValuesIn([] {
                           std::vector<std::string> names = {"reference"};
                           if (backend::default_backend() == "onednn") names.emplace_back("onednn");
                           return names;
                         }()),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

}  // namespace
}  // namespace plimsoll::property
