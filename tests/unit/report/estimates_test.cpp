// Errors of estimates by family, and what a run says of its own.

#include "report/estimates.h"

#include <gtest/gtest.h>

#include "report/run_summary.h"

namespace plimsoll::report {
namespace {

const std::vector<KernelEstimate> kKernels = {
    {"other", 1, 1}, {"other", 1, 2}, {"other", 1, 1.1}, {"other", 0.01, 1}, {"dense, bf16", 5, 4}};

TEST(Estimates, AreWeighedByTime) {
  const std::vector<EstimateError> errors = estimate_errors(kKernels);
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_EQ(errors[0].family, "dense, bf16");
  EXPECT_DOUBLE_EQ(errors[0].median_factor, 1.25);
  EXPECT_EQ(errors[1].family, "other");
  EXPECT_EQ(errors[1].kernels, 4);
  EXPECT_DOUBLE_EQ(errors[1].median_factor, 1.1);
  EXPECT_DOUBLE_EQ(errors[1].most_factor, 2);  // a hundred times is no time at all
  EXPECT_EQ(errors[2].family, "all");
  EXPECT_DOUBLE_EQ(errors[2].seconds, 8.01);
  EXPECT_TRUE(estimate_errors({}).empty());
  EXPECT_NE(to_text("net", errors).find("dense, bf16"), std::string::npos);
  EXPECT_NE(to_json("net", errors).find("\"median_factor\":1.25"), std::string::npos);
}

TEST(Estimates, AreReadAsTheyWerePrinted) {
  EXPECT_EQ(parse_estimates(print_estimates(kKernels)), kKernels);
  EXPECT_EQ(parse_estimates("no numbers\n1 0 dense\n-1 1 dense\n2 3 dense").size(), 1U);
}

TEST(Estimates, AreOfKernelsOfTheLongestProgram) {
  Profile profile;
  profile.programs = {{"train", 2, 8, {}, {}}, {"evaluate", 9, 1, {}, {}}};
  ProfileRow row;
  row.family = "convolution";
  row.seconds = 4;
  row.estimated = 2;
  row.bytes = 1;
  ProfileRow view = row;
  view.bytes = 0;
  ProfileRow data = row;
  data.family = "";
  profile.programs[0].rows = {row, view, data};
  profile.programs[1].rows = {row, row};
  EXPECT_EQ(kernel_estimates(profile), (std::vector<KernelEstimate>{{"convolution", 2, 1}}));
  EXPECT_TRUE(kernel_estimates({}).empty());
}

TEST(EstimateNote, SaysWhyAStepTookAnotherTime) {
  RunSummary summary;
  summary.steps = 10;
  summary.seconds_per_step = 1.29;
  summary.estimated_seconds_per_step = 1;
  summary.times = "of the model";
  EXPECT_EQ(estimate_note(summary), "");
  summary.seconds_per_step = 2;
  EXPECT_NE(estimate_note(summary).find("2 times as long"), std::string::npos);
  EXPECT_NE(estimate_note(summary).find("--tune measures them"), std::string::npos);
  EXPECT_NE(to_text(summary).find("note: a step took"), std::string::npos);
  summary.processor_share = 0.6;
  EXPECT_NE(estimate_note(summary).find("60 % of their processors"), std::string::npos);
  summary.spill = 1_MiB;
  EXPECT_NE(estimate_note(summary).find("spill file"), std::string::npos);
  summary.seconds_per_step = 0.5;
  summary.times = "measured here on 2026-05-28";
  EXPECT_NE(estimate_note(summary).find("timed one by one"), std::string::npos);
  summary.steps = 2;  // of which the first meets memory that is not there yet
  EXPECT_EQ(estimate_note(summary), "");
}

}  // namespace
}  // namespace plimsoll::report
