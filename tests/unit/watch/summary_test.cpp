// The text and the JSON of a run.

#include "watch/tell/summary.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "unit/watch/example_run.h"

namespace plimsoll::watch {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

TEST(Summary, TextBeginsWithTheVerdict) {
  const std::string text = to_text(test::example_run());
  EXPECT_THAT(text, StartsWith("Killed by the kernel's OOM killer"));
  EXPECT_THAT(text, HasSubstr("peak      2 GiB held at 11.9 s"));
  EXPECT_THAT(text, HasSubstr("printed   then: Epoch 1/5"));
  EXPECT_THAT(text, HasSubstr("GROWS by"));
  EXPECT_THAT(text, HasSubstr("next      Give it more"));
}

TEST(Summary, JsonHoldsExactFigures) {
  const Json json = Json::parse(to_json(test::example_run()));
  EXPECT_EQ(json["peak"]["held_bytes"], 2'147'000'001);
  EXPECT_EQ(json["limit_bytes"], 2'147'483'648);
  EXPECT_EQ(json["verdict"]["kind"], "killed_by_limit");
  EXPECT_EQ(json["signal"], "SIGKILL");
  EXPECT_EQ(json["exit_code"], 137);
  EXPECT_EQ(json["seconds"], 12.346);
  EXPECT_EQ(json["growth"]["form"], "growth");
  EXPECT_EQ(json["curve"]["seconds"].size(), 120u);
  EXPECT_EQ(json["curve"]["held_bytes"].size(), 120u);
  EXPECT_EQ(json["captures"][0]["map_bytes"]["anonymous"], 1'800'000'000);
  EXPECT_TRUE(json["explanation"].is_null());
  EXPECT_TRUE(json["peak"]["gpu_bytes"].is_null());
}

TEST(Summary, ACommandThatWasNotStartedHasNoPeak) {
  watch::Run run;
  run.command = {"nothing"};
  run.verdict.kind = VerdictKind::kNotStarted;
  run.verdict.sentence = "nothing could be started: No such file or directory.";
  EXPECT_EQ(to_text(run), run.verdict.sentence + "\n");
  EXPECT_EQ(Json::parse(to_json(run))["verdict"]["kind"], "not_started");
}

TEST(CommandLine, IsQuotedForAShell) {
  EXPECT_EQ(command_line({"python", "train.py", "--lr=0.1"}), "python train.py --lr=0.1");
  EXPECT_EQ(command_line({"sh", "-c", "a 'b' $c"}), "sh -c 'a '\\''b'\\'' $c'");
  EXPECT_EQ(command_line({"x", "\x1b[31mred", ""}), "x red ''");
}

}  // namespace
}  // namespace plimsoll::watch
