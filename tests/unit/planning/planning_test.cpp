#include "planning/planning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "report/plan_text.h"

namespace plimsoll::planning {
namespace {

using layers::Config;

layers::Model dense_network() {
  layers::Model model("net", layers::ModelKind::kSequential);
  Config::Array shape(1);  // the batch: null
  shape.emplace_back(64);
  model.append("InputLayer", Config::Object{{"batch_shape", shape}});
  model.append("Dense", Config::Object{{"name", "hidden"}, {"units", 64}});
  model.append("Dense", Config::Object{{"name", "top"}, {"units", 4}});
  return model;
}

layers::CompileOptions compiled() {
  layers::CompileOptions compile;
  compile.optimizer = layers::parse_optimizer("adam");
  compile.losses = {layers::parse_loss("mse")};
  return compile;
}

// Totals over the batch between convolutions: less memory takes more time.
layers::Model normalized_network() {
  layers::Model model("net", layers::ModelKind::kSequential);
  Config::Array shape(1);
  for (int64_t size : {16, 16, 3}) shape.emplace_back(size);
  model.append("InputLayer", Config::Object{{"batch_shape", shape}});
  for (const char* name : {"a", "b", "c"}) {
    model.append("Conv2D", Config::Object{{"name", std::string("filters_") + name},
                                          {"filters", 16},
                                          {"kernel_size", Config::Array{3, 3}},
                                          {"padding", "same"}});
    model.append("BatchNormalization", Config::Object{{"name", std::string("norm_") + name}});
    model.append("ReLU", Config::Object{{"name", std::string("relu_") + name}});
  }
  model.append("GlobalAveragePooling2D", Config::Object{{"name", "mean"}});
  model.append("Dense", Config::Object{{"name", "top"}, {"units", 4}});
  return model;
}

struct Told {
  std::vector<std::string> lines;
  PlannedRun run;
  bool says(const std::string& part) const {
    return std::ranges::any_of(
        lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }
};

Told plan(PlanRequest request) {
  Told told;
  request.backend = "reference";
  request.plan_steps = 2000;
  request.tell = [&](const std::string& what) { told.lines.push_back(what); };
  told.run = plan_run(dense_network(), compiled(), {.train = 8}, request);
  return told;
}

PlanRequest within(std::optional<Bytes> limit, SpillUse spill = SpillUse::kIfNeeded) {
  PlanRequest request;
  request.limit = limit;
  request.spill = spill;
  return request;
}

TEST(Planning, TellsWhatItPlansBesideTheOnePlanAndWhy) {
  const Told refused = plan(within(1_MiB));
  EXPECT_FALSE(refused.run.runnable.has_value());
  EXPECT_TRUE(
      refused.says("searching for a plan within 1 MiB, now with a spill file: smallest "
                   "found so far "));
  EXPECT_TRUE(refused.says(", now with smaller blocks: smallest found so far "));
  EXPECT_TRUE(refused.says("; searching for the largest batch"));
  EXPECT_TRUE(refused.says("it does not fit, but in "));
}

TEST(Planning, TellsNothingWhereOnePlanIsAllThatIsAsked) {
  PlanRequest request;
  request.full_answer = false;
  const Told told = plan(request);
  EXPECT_TRUE(told.run.runnable.has_value());
  EXPECT_TRUE(told.lines.empty());
}

TEST(Planning, BoundsOfPlansWithAndWithoutAFileAreApart) {
  const report::PlanSummary either = plan(within(1_MiB)).run.summary;
  const report::PlanSummary without = plan(within(1_MiB, SpillUse::kNever)).run.summary;
  EXPECT_EQ(either.verdict(), Verdict::kImpossible);
  EXPECT_EQ(without.verdict(), Verdict::kImpossible);
  EXPECT_EQ(either.lower_bound, without.lower_bound);
  ASSERT_TRUE(either.lower_bound_with_spill.has_value());
  EXPECT_LE(*either.lower_bound_with_spill, either.lower_bound);
  EXPECT_FALSE(without.lower_bound_with_spill.has_value());
}

TEST(Planning, RemediesKeepToTheTimeAllowed) {
  PlanRequest request;
  request.backend = "reference";
  request.plan_steps = 20'000;
  request.own_blocks_only = true;
  request.extends = false;
  request.spill = SpillUse::kNever;
  const auto ask = [&] {
    return plan_run(normalized_network(), compiled(), {.train = 96}, request).summary;
  };
  const std::vector<plan::FrontierPoint> points = ask().frontier;
  ASSERT_GT(points.size(), 1u);
  const double fastest = points.back().seconds;
  request.max_slowdown = 1.01;
  const plan::FrontierPoint& in_time =
      *std::ranges::find_if(points, [&](const plan::FrontierPoint& point) {
        return point.seconds <= *request.max_slowdown * fastest;
      });
  // The smallest plan fits, and takes too long.
  request.limit = points[0].arena_bytes;
  ASSERT_LT(*request.limit, in_time.arena_bytes);
  const report::PlanSummary refused = ask();
  ASSERT_EQ(refused.verdict(), Verdict::kNotFound);
  const std::string& reason = refused.refusal->reason;
  EXPECT_NE(reason.find("the time of the plan without a limit"), std::string::npos);
  EXPECT_NE(
      reason.find("found at this effort in that time needs " + to_string(in_time.arena_bytes)),
      std::string::npos)
      << reason;
  std::string enough;
  bool larger = false;
  for (const report::Remedy& remedy : refused.refusal->remedies) {
    larger |= remedy.change == "--memory " + std::to_string(in_time.arena_bytes.count());
    if (remedy.change.starts_with("--max-slowdown ")) {
      enough = remedy.change.substr(remedy.change.find(' ') + 1);
    } else {
      EXPECT_LE(remedy.seconds_per_step, *request.max_slowdown * fastest) << remedy.change;
    }
  }
  EXPECT_TRUE(larger);
  ASSERT_FALSE(enough.empty());
  request.max_slowdown = std::stod(enough);
  EXPECT_TRUE(ask().fits());
}

TEST(Planning, WithATimeAllowedTheFreePlanIsCalledByWhatItIs) {
  PlanRequest request;
  request.backend = "reference";
  request.plan_steps = 2000;
  request.max_slowdown = 1.5;
  const report::PlanSummary summary =
      plan_run(normalized_network(), compiled(), {.train = 16}, request).summary;
  const std::string text = report::to_text(summary, true);
  EXPECT_NE(text.find("within 1.5x the time of the plan without a limit"), std::string::npos);
  EXPECT_EQ(text.find("free plan"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::planning
