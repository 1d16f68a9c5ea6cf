#include "api/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll {
namespace {

using test::expect_error;
using test::TemporaryFolder;

constexpr int64_t kRows = 64;

// Points of six dimensions with three numbers to be found for each.
struct Samples {
  std::vector<float> x;
  std::vector<float> y;

  Samples() {
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t k = 0; k < 6; ++k) {
        x.push_back(static_cast<float>((i * 7 + k * 5) % 13) / 6.0F - 1.0F);
      }
      for (int64_t k = 0; k < 3; ++k) y.push_back(static_cast<float>((i + 4 * k) % 9) / 9.0F);
    }
  }
  Dataset dataset() const {
    return Dataset::from_arrays({x.data(), {kRows, 6}}, {y.data(), {kRows, 3}});
  }
};

Sequential small_model(const Optimizer& optimizer = SGD({.learning_rate = 0.5})) {
  Sequential model({Input({6}), Dense(5, tanh), Dense(3)}, "small");
  model.compile(optimizer, MeanSquaredError());
  return model;
}

TrainerOptions calls_of(int64_t batch, Reduce reduce = Reduce::kMean) {
  return {.batch = batch, .reduce = reduce, .seed = 3, .backend = "reference"};
}

std::vector<float> all_weights(Model& model) {
  std::vector<float> all;
  for (const std::string& name : model.weight_names()) {
    const std::vector<float> values = model.weight(name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

// Weights after one epoch of updates, each from `calls` calls of `batch` samples.
std::vector<float> trained(const Samples& samples, int64_t batch, int64_t calls,
                           const Optimizer& optimizer) {
  Sequential model = small_model(optimizer);
  Trainer trainer(model, calls_of(batch));
  const Dataset data = samples.dataset();
  for (int64_t row = 0; row < kRows;) {
    for (int64_t k = 0; k < calls; ++k, row += batch) trainer.accumulate(data, row, batch);
    trainer.apply();
  }
  EXPECT_EQ(trainer.updates(), kRows / (batch * calls));
  return all_weights(model);
}

TEST(Trainer, SmallCallsAreOneLargeBatch) {
  const Samples samples;
  for (const Optimizer& optimizer : {Optimizer("sgd(learning_rate=0.5)"), Optimizer("adam")}) {
    Sequential fitted = small_model(optimizer);
    fitted.fit(samples.dataset(),
               {.batch = 32, .shuffle = "none", .seed = 3, .backend = "reference"});
    const std::vector<float> expected = all_weights(fitted);
    EXPECT_LT(largest_difference(trained(samples, 32, 1, optimizer), expected), 1e-6);
    EXPECT_LT(largest_difference(trained(samples, 8, 4, optimizer), expected), 1e-6);
    EXPECT_GT(largest_difference(trained(samples, 8, 1, optimizer), expected), 1e-4)
        << "updates on less samples are something else";
  }
}

TEST(Trainer, ShortCallsCountBySamples) {
  const Samples samples;
  const Dataset data = samples.dataset();
  Sequential whole = small_model();
  Trainer one(whole, calls_of(30));
  const double loss = one.accumulate(data, 0, 30);
  Sequential split = small_model();
  TrainerOptions options = calls_of(12);
  options.short_batch = 6;
  Trainer three(split, options);
  double sum = 0;
  for (const auto& [first, count] : {std::pair{0, 12}, std::pair{12, 12}, std::pair{24, 6}}) {
    sum += three.accumulate(data, first, count) * count;
  }
  EXPECT_NEAR(sum / 30, loss, 1e-6);
  for (const std::string& weight : whole.weight_names()) {
    EXPECT_LT(largest_difference(one.gradient(weight), three.gradient(weight)), 1e-6) << weight;
  }
}

TEST(Trainer, SumsAreMeansOfCallsAddedUp) {
  const Samples samples;
  const Dataset data = samples.dataset();
  Sequential a = small_model();
  Sequential b = small_model();
  Trainer mean(a, calls_of(8));
  Trainer sum(b, calls_of(8, Reduce::kSum));
  for (int64_t row = 0; row < 32; row += 8) {
    mean.accumulate(data, row, 8);
    sum.accumulate(data, row, 8);
  }
  std::vector<float> expected = mean.gradient("dense/kernel");
  for (float& value : expected) value *= 4;
  EXPECT_LT(largest_difference(sum.gradient("dense/kernel"), expected), 1e-6);
  mean.apply();
  sum.apply();
  EXPECT_GT(largest_difference(all_weights(a), all_weights(b)), 1e-3);
}

TEST(Trainer, WeightsOfCallsScaleTheirGradients) {
  const Samples samples;
  const Dataset data = samples.dataset();
  Sequential model = small_model();
  Trainer trainer(model, calls_of(16));
  trainer.accumulate(data, 0, 16);
  trainer.accumulate(data, 0, 16, -1);
  const std::vector<float> none = trainer.gradient("dense/kernel");
  EXPECT_EQ(std::ranges::count(none, 0.0F), static_cast<int64_t>(none.size()));
}

TEST(Trainer, AppliesGradientsThatWereSet) {
  const Samples samples;
  Sequential model = small_model(SGD({.learning_rate = 0.25}));
  Trainer trainer(model, calls_of(16));
  trainer.accumulate(samples.dataset(), 0, 16);
  const std::vector<float> before = model.weight("dense_1/bias");
  const std::vector<float> kernel = model.weight("dense/kernel");
  const std::vector<float> gradient = trainer.gradient("dense/kernel");
  trainer.set_gradient("dense_1/bias", {4, -8, 0});
  EXPECT_EQ(trainer.gradient("dense_1/bias"), (std::vector<float>{4, -8, 0}));
  EXPECT_EQ(trainer.gradient("dense/kernel"), gradient);
  expect_error(ErrorKind::kConfig, "Call apply first",
               [&] { trainer.accumulate(samples.dataset(), 0, 16); });
  trainer.apply();
  const std::vector<float> after = model.weight("dense_1/bias");
  EXPECT_FLOAT_EQ(after[0], before[0] - 1);
  EXPECT_FLOAT_EQ(after[1], before[1] + 2);
  EXPECT_EQ(after[2], before[2]);
  std::vector<float> expected = kernel;
  for (size_t i = 0; i < expected.size(); ++i) expected[i] -= 0.25F * gradient[i];
  EXPECT_LT(largest_difference(model.weight("dense/kernel"), expected), 1e-7);
  trainer.accumulate(samples.dataset(), 0, 16);  // the sums started anew
  EXPECT_NE(trainer.gradient("dense_1/bias"), (std::vector<float>{4, -8, 0}));
}

TEST(Trainer, LeavesFrozenLayersAlone) {
  const Samples samples;
  Sequential model = small_model();
  model.set_trainable("dense", false);
  const std::vector<float> frozen = model.weight("dense/kernel");
  Trainer trainer(model, calls_of(16));
  trainer.accumulate(samples.dataset(), 0, 16);
  expect_error(ErrorKind::kConfig,
               "expected the name of a weight that is trained, received "
               "\"dense/kernel\"",
               [&] { trainer.gradient("dense/kernel"); });
  const std::vector<float> free = model.weight("dense_1/kernel");
  trainer.apply();
  EXPECT_EQ(model.weight("dense/kernel"), frozen);
  EXPECT_NE(model.weight("dense_1/kernel"), free);
}

TEST(Trainer, SeveralLiveAtOnceAndOtherCallsMayComeBetween) {
  const Samples samples;
  const Dataset data = samples.dataset();
  const auto run = [&](bool disturbed) {
    Sequential model = small_model(Adam());
    Sequential other = small_model();
    Trainer trainer(model, calls_of(16));
    std::optional<Trainer> second;
    if (disturbed) second.emplace(other, calls_of(8));
    for (int64_t row = 0; row < kRows; row += 16) {
      trainer.accumulate(data, row, 16);
      if (disturbed) {
        second->accumulate(data, row, 8);
        model.evaluate(data, {.batch = 16, .backend = "reference"});
        second->apply();
      }
      trainer.apply();
    }
    return all_weights(model);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Trainer, LimitsCountWhatOthersHold) {
  Sequential large({Input({512}), Dense(2048), Dense(1)}, "large");
  large.compile(Adam(), MeanSquaredError());
  Sequential twin({Input({512}), Dense(2048), Dense(1)}, "large");
  twin.compile(Adam(), MeanSquaredError());
  TrainerOptions options = calls_of(4);
  const Trainer first(large, options);
  options.memory = 44_MiB;  // one arena takes about 20 MiB
  expect_error(ErrorKind::kBudget, "", [&] { Trainer(twin, options); });
  options.memory = 80_MiB;
  Trainer(twin, options);
}

TEST(Trainer, GoesOnFromACheckpoint) {
  const Samples samples;
  const Dataset data = samples.dataset();
  const TemporaryFolder folder;
  const auto updates = [&](Trainer& trainer, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      trainer.accumulate(data, 16 * (i % 4), 16);
      trainer.accumulate(data, 16 * ((i + 1) % 4), 16);
      trainer.apply();
    }
  };
  Sequential straight = small_model(Adam());
  Trainer all(straight, calls_of(16));
  updates(all, 0, 7);
  {
    Sequential model = small_model(Adam());
    Trainer trainer(model, calls_of(16));
    EXPECT_EQ(trainer.resume(folder / "run"), 0);
    updates(trainer, 0, 4);
    trainer.save_checkpoint(folder / "run");
    trainer.accumulate(data, 0, 16);
    expect_error(ErrorKind::kConfig, "Call apply or clear first",
                 [&] { trainer.save_checkpoint(folder / "run"); });
  }
  Sequential model = small_model(Adam());
  std::string notice;
  TrainerOptions options = calls_of(16);
  options.on_notice = [&](const std::string& text) { notice = text; };
  Trainer trainer(model, options);
  ASSERT_EQ(trainer.resume(folder / "run"), 4);
  EXPECT_NE(notice.find("bit for bit"), std::string::npos) << notice;
  updates(trainer, 4, 7);
  EXPECT_EQ(trainer.updates(), 7);
  EXPECT_EQ(all_weights(model), all_weights(straight));
  Sequential other = small_model();
  Trainer wrong(other, calls_of(16));
  expect_error(ErrorKind::kConfig, "is of another run", [&] { wrong.resume(folder / "run"); });
}

TEST(Trainer, RefusesWhatItCannotDo) {
  const Samples samples;
  Sequential model = small_model();
  expect_error(ErrorKind::kConfig, "expected a batch of 1 or more",
               [&] { Trainer(model, {.batch = 4, .short_batch = 4}); });
  Trainer trainer(model, calls_of(16));
  const Dataset data = samples.dataset();
  expect_error(ErrorKind::kConfig, "short_batch = 5", [&] { trainer.accumulate(data, 0, 5); });
  expect_error(ErrorKind::kConfig, "received [60, 76)", [&] { trainer.accumulate(data, 60, 16); });
  expect_error(ErrorKind::kConfig, "Call accumulate or set_gradient first",
               [&] { trainer.apply(); });
  expect_error(ErrorKind::kConfig, "Call accumulate first",
               [&] { trainer.gradient("dense/kernel"); });
  expect_error(ErrorKind::kConfig, "finite", [&] { trainer.accumulate(data, 0, 16, NAN); });
  expect_error(ErrorKind::kConfig, "Did you mean \"dense/kernel\"?",
               [&] { trainer.set_gradient("dense/kernl", {}); });
  expect_error(ErrorKind::kConfig, "expected a gradient of 30 values, received 1",
               [&] { trainer.set_gradient("dense/kernel", {1}); });
  EXPECT_FLOAT_EQ(trainer.learning_rate(), 0.5);
  trainer.set_learning_rate(0.125);
  EXPECT_FLOAT_EQ(trainer.learning_rate(), 0.125);
}

TEST(Trainer, NamesBothShapesWhereALossWouldRepeatLabels) {
  const Samples samples;
  Sequential model({Input({6}), Dense(1)}, "one");
  model.compile(SGD(), MeanSquaredError());
  const ArrayView x(samples.x.data(), {16, 6});
  const auto refused = [&](const std::vector<int64_t>& labels, const std::string& part) {
    expect_error(ErrorKind::kData, part, [&] {
      model.fit(Dataset::from_arrays(x, {samples.y.data(), labels}),
                {.batch = 16, .backend = "reference"});
    });
    expect_error(ErrorKind::kData, part, [&] {
      Trainer(model, calls_of(16)).accumulate(x, {samples.y.data(), labels});
    });
  };
  refused({16, 3},
          "expected labels of shape (B, 1), as the predictions ask for, received labels "
          "of shape (B, 3). A loss that repeats one for the other would be of shape "
          "(B, 3)");
  // (16) and (16, 1) mean the same.
  Trainer(model, calls_of(16)).accumulate(x, {samples.y.data(), {16}});
}

}  // namespace
}  // namespace plimsoll
