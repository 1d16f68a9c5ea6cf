#include <gtest/gtest.h>

#include "backend/kernel/backends.h"
#include "base/error.h"
#include "plan/search/planner.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "property/compare_runs.h"
#include "property/hand_plan.h"

// Plans written by hand are parsed, validated and run, and give the bits of the naive plan of the
// same kernel set on the same backend; wrong ones are refused, and two of them noticed when they
// run.

namespace plimsoll::property {
namespace {

using Parameter = std::tuple<std::string, std::string>;

std::string test_name(const ::testing::TestParamInfo<Parameter>& info) {
  const std::string file = std::get<1>(info.param);
  return std::get<0>(info.param) + "_" + file.substr(0, file.find('.'));
}

exec::ExecutorOptions poisoned() {
  return {.poison = true, .spill_directory = ::testing::TempDir()};
}

class RightPlans : public ::testing::TestWithParam<Parameter> {};
class WrongPlans : public ::testing::TestWithParam<Parameter> {};

TEST_P(RightPlans, GiveTheBitsOfTheNaivePlan) {
  const auto& [backend, file] = GetParam();
  const HandPlan hand = load_hand_plan(file, backend);
  const plan::Validation valid = plan::validate(hand.plan, hand.programs, hand.backend->catalog());
  ASSERT_TRUE(valid.ok()) << valid.message;
  EXPECT_EQ(plan::parse(plan::print(hand.plan, hand.programs), hand.programs), hand.plan);
  const plan::Plan naive = plan::naive_plan(hand.programs, hand.backend->catalog());
  ASSERT_TRUE(plan::validate(naive, hand.programs, hand.backend->catalog()).ok());
  EXPECT_LE(hand.plan.arena_bytes, naive.arena_bytes);
  const std::vector<size_t> order = usual_order(hand.programs);
  const Results expected = run_programs(hand.programs, naive, *hand.backend, order, {});
  EXPECT_EQ(first_difference(
                expected, run_programs(hand.programs, hand.plan, *hand.backend, order, poisoned())),
            "");
  // Without the poison too: what is stale then is not always a NaN.
  exec::ExecutorOptions plain = poisoned();
  plain.poison = false;
  EXPECT_EQ(first_difference(expected,
                             run_programs(hand.programs, hand.plan, *hand.backend, order, plain)),
            "");
}

TEST_P(WrongPlans, AreRefused) {
  const auto& [backend, file] = GetParam();
  const HandPlan hand = load_hand_plan(file, backend);
  const plan::Validation valid = plan::validate(hand.plan, hand.programs, hand.backend->catalog());
  EXPECT_EQ(to_string(valid.verdict), hand.expected) << valid.message;
  if (!hand.poisoned) return;
  try {
    run_programs(hand.programs, hand.plan, *hand.backend, {0}, poisoned());
    ADD_FAILURE() << "nothing was noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_NE(error.message().find("untouched"), std::string::npos) << error.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Hand, RightPlans,
                         ::testing::Combine(::testing::ValuesIn(backend::computing_backends()),
                                            ::testing::ValuesIn(hand_plan_names(false))),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Hand, WrongPlans,
                         ::testing::Combine(::testing::ValuesIn(backend::computing_backends()),
                                            ::testing::ValuesIn(hand_plan_names(true))),
                         test_name);

}  // namespace
}  // namespace plimsoll::property
