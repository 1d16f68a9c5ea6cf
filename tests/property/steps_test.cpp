#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "backend/kernel/backends.h"
#include "base/cpu.h"
#include "base/file.h"
#include "exec/measure.h"
#include "graph/text.h"
#include "layers/training/losses.h"
#include "layers/training/programs.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "plan/validate/validator.h"
#include "property/zero_source.h"
#include "toys/count_allocations.h"

// What a step costs beside its arithmetic: no allocation, no heap that grows, and exactly the pages
// that the plan says.

namespace plimsoll::property {
namespace {

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

using layers::Config;

// Bookkeeping. The vendor's kernels take more for themselves with AVX-512, and its products without
// AVX2 pack their factors into memory of their own.
int64_t small_object_bytes(const std::string& backend) {
  const std::string isa = read_cpu_info().isa;
  if (backend != "onednn" || isa == "avx2") return 4 << 10;
  return isa.starts_with("avx512") ? 64 << 10 : 512 << 10;
}

// Layers that a vendor's library may compute, at sizes where it cuts and packs.
layers::Model image_model() {
  layers::Model model("images", layers::ModelKind::kSequential);
  model.add_input(Config::Object{{"batch_shape", Config::Array{Config(), 33, 33, 3}}});
  const Config three = Config::Array{3, 3};
  model.append("Conv2D", Config::Object{{"filters", 48}, {"kernel_size", three}, {"strides", 2}});
  model.append("BatchNormalization", Config::Object{});
  model.append("ReLU", Config::Object{});
  model.append("Conv2D", Config::Object{{"filters", 96}, {"kernel_size", 1}, {"strides", 2}});
  model.append("Conv2D", Config::Object{{"filters", 40}, {"kernel_size", 1}});
  model.append("SeparableConv2D", Config::Object{{"filters", 64}, {"kernel_size", three}});
  model.append("Conv2DTranspose", Config::Object{{"filters", 32}, {"kernel_size", three}});
  model.append(
      "Conv2D",
      Config::Object{
          {"filters", 32}, {"kernel_size", three}, {"activation", "relu"}, {"padding", "same"}});
  model.append("MaxPooling2D", Config::Object{});
  model.append("Flatten", Config::Object{});
  model.append("Dense", Config::Object{{"units", 300}, {"activation", "relu"}});
  model.append("Dense", Config::Object{{"units", 10}, {"activation", "softmax"}});
  return model;
}

layers::Model text_model() {
  layers::Model model("text");
  const layers::Tensor tokens = model.add_input(
      Config::Object{{"batch_shape", Config::Array{Config(), 70}}, {"dtype", "int32"}});
  const auto call = [&](std::string_view kind, const Config& config,
                        const std::vector<layers::Tensor>& inputs) {
    return model.call(model.add_layer(kind, config), inputs)[0];
  };
  layers::Tensor x =
      call("Embedding", Config::Object{{"input_dim", 50}, {"output_dim", 96}}, {tokens});
  x = call("MultiHeadAttention", Config::Object{{"num_heads", 3}, {"key_dim", 32}}, {x, x});
  x = call("LayerNormalization", Config::Object{}, {x});
  x = call("Conv1D", Config::Object{{"filters", 64}, {"kernel_size", 5}}, {x});
  x = call("LSTM", Config::Object{{"units", 80}}, {x});
  x = call("Dense", Config::Object{{"units", 50}, {"activation", "softmax"}}, {x});
  model.set_outputs({x});
  return model;
}

// Packing buffers of a product would be in nobody's plan (C1).
TEST_P(Steps, TakeNothingLargeFromTheHeap) {
  if (!PLIMSOLL_WATCHES_HEAP) GTEST_SKIP() << "the sanitizer's heap is not watched";
  const auto backend =
      backend::make_backend(GetParam(), {.threads = 2, .block_set = 0, .caps = {}});
  const int64_t most = small_object_bytes(GetParam());
  for (const layers::Model& model : {image_model(), text_model()}) {
    SCOPED_TRACE(model.name());
    layers::CompileOptions compile;
    compile.optimizer = layers::parse_optimizer("adam");
    compile.losses = {layers::parse_loss("SparseCategoricalCrossentropy")};
    graph::ProgramSet programs =
        layers::build_programs(model, compile, {.train = 32, .train_tail = 5, .evaluate = 32}).set;
    ops::Offers offers = backend->offers();
    offers.dense_update = Bytes(1);
    offers.dense_update_rows = 0;
    for (graph::Program& program : programs.programs) {
      program.graph = ops::fuse(program.graph, ops::registry(), offers, 0);
      program.graph = ops::insert_packs(program.graph, ops::registry(),
                                        [&](const graph::Graph& graph, graph::NodeId node) {
                                          return backend->packs(graph, node);
                                        });
    }
    const plan::PlanOutcome outcome =
        plan::make_plan(programs, backend->catalog(), {.max_steps = 1000, .gap = Bytes()});
    const plan::Plan plan = outcome.fits()->plan;
    exec::Executor executor(programs, plan, *backend);
    NoSink sink;
    for (int pass = 0; pass < 2; ++pass) {
      if (pass == 1) toys::forget_largest_block();
      for (size_t p = 0; p < programs.programs.size(); ++p) {
        ZeroSource source(programs.programs[p].graph);
        executor.run(p, {.step = pass}, &source, &sink);
      }
    }
    EXPECT_LE(toys::largest_block(), most);
  }
  toys::forget_largest_block();
  constexpr int64_t kLarge = 128 << 10;
  void* volatile large = std::malloc(kLarge);  // volatile: it is really taken
  std::free(large);
  EXPECT_GE(toys::largest_block(), kLarge);
}

// Initial weights are computed in their variables' places: nothing else stands beside those.
TEST_P(Steps, MakeFirstValuesInTheirPlaces) {
  layers::CompileOptions compile;
  compile.optimizer = layers::parse_optimizer("adam");
  compile.losses = {layers::parse_loss("SparseCategoricalCrossentropy")};
  const graph::ProgramSet programs =
      layers::build_programs(image_model(), compile, {.train = 8, .evaluate = 8}).set;
  const plan::PlanOutcome outcome =
      plan::make_plan(programs, backend_->catalog(), {.max_steps = 1000, .gap = Bytes()});
  const plan::Plan plan = outcome.fits()->plan;
  size_t written = 0;
  for (size_t p = 0; p < programs.programs.size(); ++p) {
    const graph::Graph& graph = programs.programs[p].graph;
    if (programs.programs[p].name != "initialize") continue;
    for (const plan::Instance& instance : plan.programs[p].instances) {
      const std::vector<graph::StateVariable>& states = graph.states;
      const bool first = std::ranges::any_of(states, [&](const graph::StateVariable& state) {
        return state.write.valid() && graph.node(state.write).inputs[0] == instance.value;
      });
      if (!first) continue;
      ++written;
      EXPECT_EQ(instance.space, plan::Space::kState) << graph.value(instance.value).name;
    }
    EXPECT_EQ(written, graph.states.size());
  }
  EXPECT_GT(written, 20u);
}

INSTANTIATE_TEST_SUITE_P(Backends, Steps, ::testing::ValuesIn(backend::computing_backends()),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

}  // namespace
}  // namespace plimsoll::property
