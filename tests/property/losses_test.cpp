// Every loss × sample weights × masks × a short last batch × slices: the bits of the whole batch.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ostream>

#include "backend/kernel/backends.h"
#include "base/error.h"
#include "graph/verify.h"
#include "layers/training/losses.h"
#include "layers/training/programs.h"
#include "ops/fuse/fuse.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "plan/search/trial.h"
#include "plan/tree/complete.h"
#include "plan/validate/validator.h"
#include "property/compare_runs.h"

namespace plimsoll::property {
namespace {

using layers::Config;

struct Setting {
  std::string backend;
  bool weights = false;
  bool mask = false;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.backend << (setting.weights ? ", sample weights" : "")
       << (setting.mask ? ", mask" : "");
}

std::string name_of(const testing::TestParamInfo<Setting>& info) {
  return info.param.backend + (info.param.weights ? "_weights" : "") +
         (info.param.mask ? "_mask" : "");
}

bool is_binary(const std::string& loss) { return loss.find("Binary") == 0; }

// Whether its labels are numbers of classes.
bool takes_classes(const std::string& loss) {
  return loss == "CTC" || loss == "SparseCategoricalCrossentropy" ||
         loss == "CategoricalGeneralizedCrossEntropy" || loss == "Circle";
}

// Whether one sum goes over numbers of several rows, which a mask would have to count out.
bool sums_over_rows(const std::string& loss) {
  return loss == "Dice" || loss == "Tversky" || loss == "CTC";
}

// Tokens, some of which are masked; a distribution or a probability for each of them.
layers::Model make_model(const std::string& loss, bool mask) {
  layers::Model model("net", layers::ModelKind::kSequential);
  model.add_input(Config::Object{{"batch_shape", Config::Array{Config(), 5}}, {"dtype", "int32"}});
  model.append("Embedding",
               Config::Object{{"input_dim", 2}, {"output_dim", 6}, {"mask_zero", mask}});
  model.append("Dense", Config::Object{{"units", 4}, {"activation", "tanh"}});
  if (loss == "Circle") model.append("Flatten", Config::Object{});  // it compares whole samples
  const bool binary = is_binary(loss);
  model.append("Dense", Config::Object{{"units", binary ? 1 : 3},
                                       {"activation", binary ? "sigmoid" : "softmax"}});
  return model;
}

graph::ProgramSet make_programs(const std::string& loss, const std::string& reduction,
                                const Setting& setting, const backend::Backend& backend) {
  layers::CompileOptions compile;
  compile.optimizer = layers::parse_optimizer("adam");
  compile.losses = {layers::parse_loss(loss + "(reduction=" + reduction + ")")};
  const char* metric = takes_classes(loss) ? "accuracy" : "mse";
  if (loss != "CTC") compile.metrics = {{layers::parse_metric(metric)}};
  compile.sample_weights = setting.weights;
  graph::ProgramSet set = layers::build_programs(make_model(loss, setting.mask), compile,
                                                 {.train = 12, .train_tail = 5, .evaluate = 12})
                              .set;
  std::erase_if(set.programs, [](const auto& program) { return program.name == "initialize"; });
  for (graph::Program& program : set.programs) {
    program.graph = ops::fuse(program.graph, ops::registry(), backend.offers(), program.batch);
    program.graph = ops::insert_packs(
        program.graph, ops::registry(),
        [&](const graph::Graph& graph, graph::NodeId node) { return backend.packs(graph, node); });
  }
  return set;
}

// Each program in its k-th slices, from the smallest on; `loops` counts.
plan::Plan sliced_plan(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog,
                       size_t k, size_t& loops) {
  const plan::PlanOptions options;
  plan::Plan plan;
  plan::place_states(programs, {}, {}, plan);
  for (const graph::Program& program : programs.programs) {
    plan::ProgramFacts facts(program, catalog);
    plan::Trials trials(facts, plan.states, options);
    const auto flat = plan::make_flat_shapes(facts, trials.dependencies(), trials.slots());
    plan::Schedule schedule;
    schedule.shapes = flat[std::min(k, flat.size() - 1)];
    plan::ProgramPlan tree = trials.build(schedule);
    plan::complete_offsets(tree, facts.graph(), plan.states, plan::find_buffers(tree), {});
    loops += tree.loops.size();
    plan.programs.push_back(std::move(tree));
  }
  plan::complete_totals(plan, programs, catalog);
  return plan;
}

class Losses : public testing::TestWithParam<Setting> {};

TEST_P(Losses, SlicesGiveTheBitsOfTheWholeBatch) {
  const auto backend = backend::make_backend(
      GetParam().backend, {.threads = 1, .block_set = 0, .caps = {{"batch", 2}}});
  for (const std::string& loss : layers::loss_class_names()) {
    // Means of weighted values do not go with weights, which are not counted.
    const std::string other = GetParam().weights ? "sum" : "mean_with_sample_weight";
    for (const std::string& reduction : {std::string("sum_over_batch_size"), other}) {
      SCOPED_TRACE(loss + ", " + reduction);
      if (GetParam().mask && sums_over_rows(loss)) {
        EXPECT_THROW(make_programs(loss, reduction, GetParam(), *backend), Error);
        continue;
      }
      const graph::ProgramSet programs = make_programs(loss, reduction, GetParam(), *backend);
      ASSERT_EQ(graph::verify(programs), std::nullopt);
      const plan::Plan naive = plan::naive_plan(programs, backend->catalog());
      const Results expected =
          run_programs(programs, naive, *backend, usual_order(programs), {.poison = true});
      float value = 0;
      std::memcpy(&value, expected.at("train/0/0").data(), sizeof(value));
      EXPECT_TRUE(std::isfinite(value)) << value;
      EXPECT_NE(value, 0);
      for (size_t k = 0; k < 4; ++k) {
        size_t loops = 0;
        const plan::Plan plan = sliced_plan(programs, backend->catalog(), k, loops);
        EXPECT_TRUE(loops == 0 || k < 3 || loss == "Circle") << k;
        EXPECT_TRUE(loops > 0 || k == 3) << k;
        const plan::Validation valid = plan::validate(plan, programs, backend->catalog());
        ASSERT_TRUE(valid.ok()) << valid.message;
        EXPECT_EQ(first_difference(expected, run_programs(programs, plan, *backend,
                                                          usual_order(programs), {.poison = true})),
                  "");
      }
    }
  }
}

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const std::string& backend : backend::computing_backends()) {
    for (bool weights : {false, true}) {
      for (bool mask : {false, true}) settings.push_back({backend, weights, mask});
    }
  }
  return settings;
}

INSTANTIATE_TEST_SUITE_P(Backends, Losses, testing::ValuesIn(all_settings()), name_of);

}  // namespace
}  // namespace plimsoll::property
