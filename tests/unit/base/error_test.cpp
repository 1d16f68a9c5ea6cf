#include "base/error.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/suggest.h"
#include "unit/base/expect_error.h"

namespace plimsoll {
namespace {

TEST(Error, CollectsFramesFromTheInside) {
  try {
    with_context("while reading model.h5", [] {
      with_context("while importing layer conv2d_3",
                   []() -> void { throw Error(ErrorKind::kModel, "expected rank 4."); });
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    EXPECT_EQ(error.message(), "expected rank 4.");
    EXPECT_EQ(error.context(), (std::vector<std::string>{"while importing layer conv2d_3",
                                                         "while reading model.h5"}));
    EXPECT_STREQ(error.what(),
                 "expected rank 4.\n  while importing layer conv2d_3\n  while reading model.h5");
  }
}

TEST(Error, ContextPassesTheValueThrough) {
  int value = 3;
  int& same = with_context("frame", [&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
}

TEST(Error, AFailedCheckIsOurBugAndSaysWhere) {
  test::expect_error(ErrorKind::kInternal,
                     "error_test.cpp:", [] { PLIMSOLL_CHECK(1 + 1 == 3, "arithmetic"); });
  EXPECT_NO_THROW(PLIMSOLL_CHECK(1 + 1 == 2, "arithmetic"));
}

TEST(Suggest, OffersTheNearestNameOnlyWhenItIsNear) {
  EXPECT_EQ(did_you_mean("Conv2d", {"Dense", "Conv2D", "Conv1D"}), " Did you mean \"Conv2D\"?");
  EXPECT_EQ(did_you_mean("adma", {"sgd", "adam", "adamw"}), " Did you mean \"adam\"?");
  EXPECT_EQ(did_you_mean("--memry", {"--memory", "--metrics"}), " Did you mean \"--memory\"?");
  EXPECT_EQ(did_you_mean("TextVectorization", {"Dense", "Conv2D"}), "");
  EXPECT_EQ(did_you_mean("x", std::initializer_list<std::string_view>{}), "");
  EXPECT_EQ(did_you_mean("", {"abc"}), "");
}

TEST(Suggest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ab", "ba"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("DENSE", "dense"), 0);
}

TEST(Log, GoesThroughOneSinkAboveTheLevel) {
  std::vector<std::string> lines;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const LogLevel level = set_log_level(LogLevel::kWarning);
  log(LogLevel::kInfo, "hidden");
  log(LogLevel::kWarning, "seen");
  set_log_level(level);
  set_log_sink(before);
  EXPECT_EQ(lines, std::vector<std::string>{"seen"});
}

TEST(Log, WithoutASinkNothingIsWritten) {
  testing::internal::CaptureStderr();
  log(LogLevel::kError, "a host's terminal is the host's");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Log, ProgramsHaveStandardErrorForASink) {
  const LogSink before = set_log_sink(log_to_standard_error);
  testing::internal::CaptureStderr();
  log(LogLevel::kWarning, "seen");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: seen\n");
  set_log_sink(before);
}

TEST(Clock, FakeTimeMovesOnlyWhenMoved) {
  FakeClock clock;
  EXPECT_EQ(clock.seconds(), 0.0);
  clock.advance(std::chrono::milliseconds(1500));
  EXPECT_EQ(clock.seconds(), 1.5);
  const SteadyClock steady;
  const std::chrono::nanoseconds first = steady.now();
  EXPECT_LE(first, steady.now());
}

}  // namespace
}  // namespace plimsoll
