#include "report/coverage.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace plimsoll::report {
namespace {

// A machine of 100 operations and 10 bytes a second, and two steps of ten seconds.
Profile ten_seconds() {
  const auto kernel = [](const char* op, double seconds, double flops, double bytes) {
    ProfileRow row;
    row.layer = "layer";
    row.what = op;
    row.kind = "kernel";
    row.op = op;
    row.calls = 8;
    row.seconds = seconds;
    row.flops = flops;
    row.bytes = bytes;
    return row;
  };
  ProgramProfile train{"train", 2, 20, {}, {}};
  train.rows = {kernel("dense", 8, 600, 10), kernel("cast", 6, 0, 10), kernel("dense", 4, 400, 1),
                kernel("reshape", 1, 0, 0), kernel("rare", 0.05, 0, 0.01)};
  ProfileRow data;
  data.kind = "data";
  data.what = "x";
  data.calls = 2;
  data.seconds = 0.95;
  train.rows.push_back(data);
  const ProgramProfile evaluate{"evaluate", 1, 100, {kernel("dense", 100, 1, 1)}, {}};
  MachineSpeed machine;
  machine.flops_per_second = 100;
  machine.bytes_per_second = 10;
  return {{evaluate, train}, machine};
}

TEST(Coverage, HasEveryOperatorOfAStepOnceTheLargestShareFirst) {
  const Coverage coverage = find_coverage(ten_seconds());
  EXPECT_EQ(coverage.program, "train");
  EXPECT_DOUBLE_EQ(coverage.seconds, 10);
  std::vector<std::string> names;
  double seconds = 0;
  for (const CoverageRow& row : coverage.rows) {
    names.push_back(row.name);
    seconds += row.seconds;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"dense", "cast", "reshape", "data", "rare"}));
  EXPECT_NEAR(seconds, coverage.seconds, 1e-9);
  EXPECT_EQ(coverage.rows[0], (CoverageRow{.name = "dense",
                                           .nodes = 2,
                                           .calls = 8,
                                           .seconds = 6,
                                           .share = 0.6,
                                           .limit = 5,
                                           .compute = true}));
  EXPECT_EQ(coverage.rows[1],
            (CoverageRow{
                .name = "cast", .nodes = 1, .calls = 4, .seconds = 3, .share = 0.3, .limit = 0.5}));
}

// Slow is what takes a part of the step that counts, and has a limit that it is far from.
TEST(Coverage, NamesWhatIsSlow) {
  const Coverage coverage = find_coverage(ten_seconds());
  for (const CoverageRow& row : coverage.rows) EXPECT_EQ(row.is_slow(), row.name == "cast");
  const std::string text = to_text(coverage);
  EXPECT_NE(text.find("below 40 % of their limits with 0.5 % of the step or more: cast; at 40 % of "
                      "their limits the step would be 17.5 % shorter"),
            std::string::npos)
      << text;
  Profile good = ten_seconds();
  good.programs[1].rows[1].bytes = 40;
  EXPECT_NE(to_text(find_coverage(good))
                .find("all operators that take 0.5 % of the step or more reach 40 % of their"),
            std::string::npos);
}

TEST(Coverage, IsJsonToo) {
  const auto json = nlohmann::json::parse(to_json(find_coverage(ten_seconds())));
  ASSERT_EQ(json["operators"].size(), 5u);
  EXPECT_EQ(json["machine"]["flops_per_second"], 100);
  EXPECT_EQ(json["operators"][0]["bound"], "compute");
  EXPECT_EQ(json["operators"][1]["bound"], "memory");
  EXPECT_EQ(json["operators"][1]["slow"], true);
  EXPECT_NEAR(json["operators"][1]["of_limit"].get<double>(), 1.0 / 6, 1e-12);
  EXPECT_TRUE(json["operators"][2]["limit_seconds"].is_null());
  EXPECT_TRUE(json["operators"][3]["bound"].is_null());
}

TEST(Coverage, OfNothingThatRanIsEmpty) { EXPECT_TRUE(find_coverage({}).rows.empty()); }

}  // namespace
}  // namespace plimsoll::report
