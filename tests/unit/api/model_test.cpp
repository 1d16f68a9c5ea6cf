#include "api/plimsoll.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll {
namespace {

using test::expect_error;
using test::TemporaryFolder;

constexpr int64_t kRows = 40;
const RunOptions kRun = {.batch = 16, .backend = "reference"};

// Points of four dimensions in two classes that a line tells apart.
struct Points {
  std::vector<float> x;
  std::vector<int64_t> y;

  Points() {
    for (int64_t i = 0; i < kRows; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < 4; ++k) {
        x.push_back(static_cast<float>((i * 7 + k * 3) % 11) / 5.0F - 1.0F);
        sum += k % 2 == 0 ? x.back() : -x.back();
      }
      y.push_back(sum > 0 ? 1 : 0);
    }
  }
  Dataset dataset() const {
    return Dataset::from_arrays({x.data(), {kRows, 4}}, {y.data(), {kRows}});
  }
};

Sequential small_model() {
  Sequential model({Input({4}), Dense(8, tanh), Dense(1, sigmoid)}, "small");
  model.compile(Adam({.learning_rate = 0.05}), BinaryCrossentropy(), {Accuracy()});
  return model;
}

FitOptions epochs(int64_t count) {
  return {.batch = 16, .epochs = count, .shuffle = "none", .backend = "reference"};
}

std::vector<float> all_weights(Model& model) {
  std::vector<float> all;
  for (const std::string& name : model.weight_names()) {
    const std::vector<float> values = model.weight(name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double loss_of(const MetricValues& values) {
  EXPECT_EQ(values.at(0).first, "loss");
  return values.at(0).second;
}

TEST(ApiModel, LearnsAndReports) {
  const Points points;
  Sequential model = small_model();
  std::vector<int64_t> steps;
  FitOptions options = epochs(20);
  options.on_step = [&](int64_t step, double) { steps.push_back(step); };
  int64_t epoch_count = 0;
  options.on_epoch = [&](const EpochReport& epoch) { EXPECT_EQ(epoch.epoch, ++epoch_count); };
  const History history = model.fit(points.dataset(), options);
  ASSERT_EQ(history.epochs.size(), 20u);
  EXPECT_EQ(history.steps, 60);  // 16, 16, 8 samples
  EXPECT_EQ(steps.size(), 60u);
  EXPECT_EQ(epoch_count, 20);
  EXPECT_LT(loss_of(history.epochs.back().metrics), loss_of(history.epochs.front().metrics) / 2);
  EXPECT_EQ(history.epochs.back().metrics.at(1).first, "accuracy");
  EXPECT_GT(history.memory.planned_arena, Bytes(0));
  EXPECT_LE(history.memory.measured_arena, history.memory.planned_arena);
  const MetricValues values = model.evaluate(points.dataset(), kRun);
  EXPECT_LT(loss_of(values), loss_of(history.epochs.front().metrics) / 2);
  EXPECT_GT(values.at(1).second, 0.9);
}

TEST(ApiModel, GoesOnWhereItStopped) {
  const Points points;
  Sequential once = small_model();
  once.fit(points.dataset(), epochs(3));
  Sequential thrice = small_model();
  thrice.fit(points.dataset(), epochs(1));
  thrice.fit(points.dataset(), epochs(1));  // in the same session
  thrice.evaluate(points.dataset(), kRun);  // which ends here
  thrice.fit(points.dataset(), epochs(1));
  EXPECT_EQ(all_weights(thrice), all_weights(once));
}

TEST(ApiModel, TheLimitDoesNotChangeTheResult) {
  const Points points;
  Sequential free = small_model();
  free.fit(points.dataset(), epochs(2));
  const PlanAnswer answer = free.plan(kRun);
  EXPECT_TRUE(answer.fits());
  Sequential limited = small_model();
  FitOptions options = epochs(2);
  options.memory = 1_GiB;
  limited.fit(points.dataset(), options);
  EXPECT_EQ(all_weights(limited), all_weights(free));
}

TEST(ApiModel, PlanAnswersWithAValue) {
  Sequential model = small_model();
  RunOptions options = kRun;
  const PlanAnswer free = model.plan(options);
  EXPECT_TRUE(free.fits());
  EXPECT_FALSE(free.frontier.empty());
  EXPECT_LE(free.lower_bound, free.smallest_feasible);
  EXPECT_LE(free.smallest_feasible, free.smallest_same_bits);
  EXPECT_LE(free.smallest_same_bits, free.free_plan);
  EXPECT_NE(free.json.find("\"answer\": \"fits\""), std::string::npos);
  options.memory = 1_KiB;
  const PlanAnswer tight = model.plan(options);
  EXPECT_EQ(tight.answer, PlanAnswer::Answer::kImpossible);
  EXPECT_FALSE(tight.reason.empty());
  EXPECT_EQ(tight.smallest_feasible, free.smallest_feasible);
}

TEST(ApiModel, PlansGoByTimesThatWereMeasured) {
  const TemporaryFolder folder;
  const Points points;
  RunOptions run = kRun;
  run.times = folder.path();
  EXPECT_NE(small_model().plan(run).text.find("of the model"), std::string::npos);
  FitOptions options = epochs(2);
  options.times = "none";
  Sequential model = small_model();
  model.fit(points.dataset(), options);
  const std::vector<float> expected = all_weights(model);
  options.times = folder.path();
  options.tune = true;
  Sequential tuned = small_model();
  tuned.fit(points.dataset(), options);
  EXPECT_EQ(all_weights(tuned), expected);
  EXPECT_NE(small_model().plan(run).text.find("measured here on"), std::string::npos);
  run.times = "none";
  EXPECT_NE(small_model().plan(run).text.find("of the model"), std::string::npos);
}

TEST(ApiModel, FitThrowsWhereTheLimitCannotBeMetAndChangesNothing) {
  const Points points;
  Sequential model = small_model();
  model.fit(points.dataset(), epochs(1));
  const std::vector<float> before = all_weights(model);
  FitOptions options = epochs(1);
  options.memory = 1_KiB;
  expect_error(ErrorKind::kBudget, "1 KiB", [&] { model.fit(points.dataset(), options); });
  EXPECT_EQ(all_weights(model), before);
}

TEST(ApiModel, PredictsEveryOutputOfEveryRow) {
  const Points points;
  Input x({4});
  const Tensor hidden = Dense(3, tanh)(x);
  Model model(x, {Dense(2)(hidden)}, "predictor");
  const Dataset dataset = Dataset::from_arrays({points.x.data(), {kRows, 4}});
  const std::vector<Predictions> whole = model.predict(dataset, kRun);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].shape, (std::vector<int64_t>{kRows, 2}));
  RunOptions one = kRun;
  one.batch = 1;
  EXPECT_EQ(model.predict(dataset, one)[0].values.size(), whole[0].values.size());
  const std::vector<float> kernel = model.weight("dense_1/kernel");
  EXPECT_EQ(kernel.size(), 6u);
  const TemporaryFolder folder;
  model.predict_to(folder / "p.npy", dataset, kRun);
  const std::string file = TemporaryFolder::read(folder / "p.npy");
  ASSERT_GT(file.size(), whole[0].values.size() * 4);
  EXPECT_EQ(std::memcmp(file.data() + file.size() - whole[0].values.size() * 4,
                        whole[0].values.data(), whole[0].values.size() * 4),
            0);
}

TEST(ApiModel, SavesAndLoadsTheStateOfTraining) {
  const Points points;
  const TemporaryFolder folder;
  Sequential model = small_model();
  model.fit(points.dataset(), epochs(2));
  model.save(folder / "m.keras");
  Model loaded = load_model(folder / "m.keras");
  EXPECT_EQ(loaded.weight_names(), model.weight_names());
  EXPECT_EQ(all_weights(loaded), all_weights(model));
  model.fit(points.dataset(), epochs(2));
  loaded.fit(points.dataset(), epochs(2));  // with Adam's moments from the file
  EXPECT_EQ(all_weights(loaded), all_weights(model));
  loaded.save(folder / "again.keras");
  model.save(folder / "m.keras");
  EXPECT_EQ(TemporaryFolder::read(folder / "again.keras"),
            TemporaryFolder::read(folder / "m.keras"));
}

TEST(ApiModel, SavesStructureAndUntrainedModels) {
  const TemporaryFolder folder;
  Sequential model = small_model();
  model.save(folder / "m.json");
  model.save(folder / "m.keras");
  EXPECT_EQ(load_model(folder / "m.json").parameter_count(), model.parameter_count());
  Model loaded = load_model(folder / "m.keras");
  EXPECT_EQ(all_weights(loaded), all_weights(model));
  expect_error(ErrorKind::kConfig, ".keras", [&] { model.save(folder / "m.onnx"); });
}

TEST(ApiModel, CompilingAgainStartsTheOptimizerAnew) {
  const Points points;
  Sequential model = small_model();
  model.fit(points.dataset(), epochs(2));
  Sequential copy = small_model();
  for (const std::string& name : model.weight_names()) copy.set_weight(name, model.weight(name));
  model.compile(Adam({.learning_rate = 0.05}), BinaryCrossentropy(), {Accuracy()});
  model.fit(points.dataset(), epochs(1));
  copy.fit(points.dataset(), epochs(1));
  EXPECT_EQ(all_weights(model), all_weights(copy));
}

TEST(ApiModel, StatisticsOfGroupsArePartOfTheModel) {
  const Points points;
  const auto normalized = [] {
    Sequential model({Input({4}), Dense(8, tanh), BatchNormalization(), Dense(1, sigmoid)}, "norm");
    model.compile(Adam({.learning_rate = 0.05}), BinaryCrossentropy());
    return model;
  };
  Sequential full = normalized();
  EXPECT_EQ(full.batch_norm(), "full");
  full.fit(points.dataset(), epochs(1));
  Sequential groups = normalized();
  groups.set_batch_norm("slice:4");
  EXPECT_NE(groups.plan(kRun).text.find("groups of 4 samples"), std::string::npos);
  groups.fit(points.dataset(), epochs(1));
  EXPECT_NE(all_weights(groups), all_weights(full));
  groups.compile(Adam(), BinaryCrossentropy());
  EXPECT_EQ(groups.batch_norm(), "slice:4");
  const TemporaryFolder folder;
  groups.save(folder / "groups.keras");
  Model loaded = load_model(folder / "groups.keras");
  EXPECT_EQ(loaded.batch_norm(), "slice:4");
  groups.fit(points.dataset(), epochs(1));
  loaded.fit(points.dataset(), epochs(1));
  EXPECT_EQ(all_weights(loaded), all_weights(groups));
  expect_error(ErrorKind::kConfig, "expected full, or slice:N",
               [&] { groups.set_batch_norm("slice"); });
}

TEST(ApiModel, FrozenLayersStay) {
  const Points points;
  Sequential model = small_model();
  model.fit(points.dataset(), epochs(1));
  model.set_trainable("dense", false);
  const std::vector<float> frozen = model.weight("dense/kernel");
  const std::vector<float> free = model.weight("dense_1/kernel");
  model.fit(points.dataset(), epochs(1));
  EXPECT_EQ(model.weight("dense/kernel"), frozen);
  EXPECT_NE(model.weight("dense_1/kernel"), free);
}

TEST(ApiModel, ValidatesEveryEpoch) {
  const Points points;
  Sequential model = small_model();
  const Dataset validation = points.dataset();
  FitOptions options = epochs(2);
  options.validation = &validation;
  const History history = model.fit(points.dataset(), options);
  const MetricValues& last = history.epochs.back().metrics;
  ASSERT_EQ(last.size(), 4u);
  EXPECT_EQ(last[2].first, "val_loss");
  EXPECT_DOUBLE_EQ(last[2].second, loss_of(model.evaluate(points.dataset(), kRun)));
}

TEST(ApiModel, SaysWhatIsMissing) {
  const Points points;
  Sequential model({Input({4}), Dense(1)}, "bare");
  expect_error(ErrorKind::kConfig, "[bare] fit: expected a model that is compiled",
               [&] { model.fit(points.dataset(), epochs(1)); });
  expect_error(ErrorKind::kConfig, "[bare] plan", [&] { model.plan(); });
  model.compile(SGD(), MeanSquaredError());
  expect_error(ErrorKind::kConfig, "[batch] expected 1 or more",
               [&] { model.fit(points.dataset(), {.batch = 0}); });
  expect_error(ErrorKind::kData, "x: expected rows", [&] {
    model.fit(Dataset::from_arrays({points.x.data(), {0, 4}}));
  });
  expect_error(ErrorKind::kConfig, "[dense] expected labels, received none", [&] {
    model.fit(Dataset::from_arrays({points.x.data(), {kRows, 4}}), epochs(1));
  });
  expect_error(ErrorKind::kConfig, "Did you mean \"dense/kernel\"?",
               [&] { model.weight("dense/kernle"); });
  expect_error(ErrorKind::kConfig, "[dense/kernel] expected 4 values, received 1",
               [&] { model.set_weight("dense/kernel", {1}); });
  expect_error(ErrorKind::kModel, "Did you mean \"dense\"?",
               [&] { model.set_trainable("dens", false); });
}

TEST(ApiModel, SeveralOutputsTakeALossEach) {
  const Points points;
  const std::vector<float> targets(kRows, 0.5F);
  Input x({4});
  Model model({x},
              {Dense(1, DenseOptions{.name = "p"})(x), Dense(1, DenseOptions{.name = "q"})(x)});
  model.compile(SGD(), {MeanSquaredError(), MeanAbsoluteError()}, {{Metric("mae")}, {}});
  const Dataset dataset =
      Dataset::from_arrays({{points.x.data(), {kRows, 4}}},
                           {{targets.data(), {kRows, 1}}, {targets.data(), {kRows, 1}}});
  const History history = model.fit(dataset, epochs(1));
  EXPECT_TRUE(std::isfinite(loss_of(history.epochs[0].metrics)));
  EXPECT_EQ(model.predict(dataset, kRun).size(), 2u);
}

TEST(ApiModel, SummaryListsLayers) {
  const std::string text = small_model().summary();
  EXPECT_NE(text.find("dense_1"), std::string::npos);
  EXPECT_NE(text.find("(B, 8)"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll
