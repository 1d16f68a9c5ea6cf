#include "api/training.h"

#include <gtest/gtest.h>

#include "api/spec_impl.h"
#include "layers/training/optimizers.h"
#include "unit/base/expect_error.h"

namespace plimsoll {
namespace {

using api::ObjectAccess;
using test::expect_error;

layers::Config argument(const Optimizer& optimizer, const char* key) {
  return ObjectAccess::value(optimizer).at("config").at(key);
}

TEST(ApiTraining, OptimizersCarryTheirArguments) {
  EXPECT_EQ(argument(Adam(), "learning_rate").as_double(), 0.001);
  EXPECT_EQ(argument(Adam({.beta_1 = 0.5, .weight_decay = 0.25}), "weight_decay").as_double(),
            0.25);
  EXPECT_EQ(ObjectAccess::value(Adam()).at("config").find("weight_decay"), nullptr);
  EXPECT_EQ(argument(AdamW(), "weight_decay").as_double(), 0.004);
  EXPECT_TRUE(argument(SGD({.momentum = 0.9, .nesterov = true}), "nesterov").as_bool());
  EXPECT_TRUE(argument(RMSprop({.centered = true}), "centered").as_bool());
}

// What is made here is what the layers accept.
TEST(ApiTraining, OptimizersAreKnown) {
  const std::vector<std::pair<Optimizer, std::string>> all = {
      {SGD({.momentum = 0.5, .weight_decay = 0.1}), "SGD"},
      {Adam({.amsgrad = true}), "Adam"},
      {AdamW(), "AdamW"},
      {RMSprop({.momentum = 0.5, .centered = true}), "RMSprop"}};
  for (const auto& [optimizer, name] : all) {
    EXPECT_EQ(layers::read_optimizer(ObjectAccess::value(optimizer)).class_name, name);
  }
}

TEST(ApiTraining, NamesWorkAsOnTheCommandLine) {
  EXPECT_EQ(argument(Optimizer("adam(beta_1=0.5)"), "beta_1").as_double(), 0.5);
  expect_error(ErrorKind::kConfig, "Did you mean", [] { Optimizer("adan"); });
  expect_error(ErrorKind::kConfig, "Did you mean", [] { Loss("binary_crossentropi"); });
  expect_error(ErrorKind::kConfig, "Did you mean", [] { Metric("accurac"); });
}

}  // namespace
}  // namespace plimsoll
