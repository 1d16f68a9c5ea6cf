// What changes from one attempt to the next, and what does not.

#include "watch/restart.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace plimsoll::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Words = std::vector<std::string>;

TEST(ChangeArgument, FindsTheNumberAfterItsName) {
  EXPECT_EQ(change_argument({"python", "t.py", "--batch-size", "64"}, "--batch-size", half),
            (Words{"python", "t.py", "--batch-size", "32"}));
  EXPECT_EQ(change_argument({"t", "--batch-size=65"}, "--batch-size", half),
            (Words{"t", "--batch-size=32"}));
  EXPECT_EQ(change_argument({"t", "data.batch_size=8"}, "data.batch_size", half),
            (Words{"t", "data.batch_size=4"}));
  EXPECT_EQ(change_argument({"t", "--accumulate", "3"}, "--accumulate", doubled),
            (Words{"t", "--accumulate", "6"}));
}

TEST(ChangeArgument, RefusesWhatIsNoSuchNumber) {
  EXPECT_FALSE(change_argument({"t", "--batch-size", "1"}, "--batch-size", half));
  EXPECT_FALSE(change_argument({"t", "--batch-size", "auto"}, "--batch-size", half));
  EXPECT_FALSE(change_argument({"t", "--batch-size"}, "--batch-size", half));
  EXPECT_FALSE(change_argument({"t", "--batch-size-limit", "64"}, "--batch-size", half));
  EXPECT_FALSE(change_argument({"--batch-size", "64"}, "64", half));
  EXPECT_FALSE(doubled(std::numeric_limits<int64_t>::max() / 2 + 1));
}

TEST(NextAttempt, KeepsTheEffectiveBatchAndAddsResumeArgumentsOnce) {
  WatchOptions options;
  options.command = {"t", "--batch", "32", "--steps", "2"};
  RestartOptions restart;
  restart.most = 2;
  restart.halve = "--batch";
  restart.accumulate = "--steps";
  restart.resume_arguments = {"--resume"};
  const NextAttempt first = next_attempt(options, restart, 1);
  ASSERT_TRUE(first.options);
  EXPECT_THAT(first.options->command,
              ElementsAre("t", "--batch", "16", "--steps", "4", "--resume"));
  EXPECT_THAT(first.text, HasSubstr("restart 1 of 2"));
  const NextAttempt second = next_attempt(*first.options, restart, 2);
  ASSERT_TRUE(second.options);
  EXPECT_THAT(second.options->command,
              ElementsAre("t", "--batch", "8", "--steps", "8", "--resume"));
}

TEST(NextAttempt, HalvesAVariable) {
  WatchOptions options;
  options.command = {"t"};
  options.environment = {{"BATCH_SIZE", "48"}};
  RestartOptions restart;
  restart.most = 1;
  restart.halve_environment = "BATCH_SIZE";
  const NextAttempt next = next_attempt(options, restart, 1);
  ASSERT_TRUE(next.options);
  EXPECT_THAT(next.options->environment, ElementsAre(Pair("BATCH_SIZE", "24")));
}

TEST(NextAttempt, EndsWhenTheNumberIsOne) {
  WatchOptions options;
  options.command = {"t", "--batch", "1"};
  RestartOptions restart;
  restart.most = 5;
  restart.halve = "--batch";
  const NextAttempt next = next_attempt(options, restart, 1);
  EXPECT_FALSE(next.options);
  EXPECT_THAT(next.text, HasSubstr("--batch"));
}

TEST(SplitWords, CutsAsAShellDoes) {
  EXPECT_THAT(split_words("--resume  --from 'a b' \"c d\"e f\\ g ''"),
              ElementsAre("--resume", "--from", "a b", "c de", "f g", ""));
  EXPECT_THAT(split_words("   "), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::watch
