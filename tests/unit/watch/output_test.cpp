// What the command prints: lines, progress, terminal sequences.

#include "watch/output.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace plimsoll::watch {
namespace {

using ::testing::ElementsAre;

ProgressMarks marks_of(std::initializer_list<std::string_view> lines) {
  ProgressMarks marks;
  for (const std::string_view line : lines) marks.read(line);
  return marks;
}

TEST(CleanLine, DropsTerminalSequencesAndControls) {
  EXPECT_EQ(clean_line("\x1b[1m12/63\x1b[0m \x1b[32mdone\x1b[0m", 100), "12/63 done");
  EXPECT_EQ(clean_line("\x1b]0;title\alog", 100), "log");
  EXPECT_EQ(clean_line("a\tb\x01"
                       "c\x7f",
                       100),
            "a bc");
}

TEST(CleanLine, KeepsWholeCharactersOnly) {
  EXPECT_EQ(clean_line("\xe2\x94\x81\xe2\x94\x81", 4), "\xe2\x94\x81");
  EXPECT_EQ(clean_line("\xff\xfe"
                       "a",
                       100),
            "??a");
  EXPECT_EQ(clean_line("\xc2\x9b"
                       "31m",
                       100),
            "31m");  // an escape of one byte
  EXPECT_EQ(clean_line("\x1b[", 100), "");
}

TEST(ProgressMarks, CountsKerasEpochsAndBars) {
  const ProgressMarks marks =
      marks_of({"Epoch 1/2", " 1/8 ━━━ 0:03", " 5/8 ━━━", "8/8 ━━━ 3s 40ms/step - loss: 0.6",
                "Epoch 2/2", "1/8 ━━━", "8/8 ━━━"});
  EXPECT_EQ(marks.epochs(), 2);
  EXPECT_EQ(marks.fits(), 1);
  EXPECT_EQ(marks.steps(), 16);
}

TEST(ProgressMarks, ANewFitBeginsWithEpochOne) {
  const ProgressMarks marks = marks_of({"Epoch 1/3", "Epoch 2/3", "Epoch 3/3", "Epoch 1/3"});
  EXPECT_EQ(marks.epochs(), 4);
  EXPECT_EQ(marks.fits(), 2);
}

// With epochs=1 Keras prints no line that names the epoch.
TEST(ProgressMarks, CountsEpochsThatKerasDoesNotName) {
  const ProgressMarks lines =
      marks_of({"100/100 - 1s - 5ms/step - loss: 0.6931", "25/25 - 0s - 3ms/step - loss: 0.6920",
                "100/100 - 1s - 5ms/step - loss: 0.6875", "25/25 - 0s - 3ms/step - loss: 0.6903",
                "100/100 - 1s - loss: 0.6701 - 1s/epoch - 10ms/step"});
  EXPECT_EQ(lines.epochs(), 3);
  EXPECT_EQ(lines.fits(), 3);
  EXPECT_EQ(lines.steps(), 350);
  const ProgressMarks bars =
      marks_of({" 1/8 ━━━ 0:03 500ms/step - loss: 0.7", "8/8 ━━━ 3s 40ms/step - loss: 0.6",
                "8/8 ━━━ 3s 41ms/step - loss: 0.6", " 1/8 ━━━ 0:03 500ms/step - loss: 0.7",
                "8/8 ━━━ 3s 40ms/step - loss: 0.6"});
  EXPECT_EQ(bars.epochs(), 2);
  EXPECT_EQ(bars.fits(), 2);
  EXPECT_EQ(bars.steps(), 16);
  // Predictions have no loss.
  const ProgressMarks predicted =
      marks_of({"32/32 ━━━ 0s 1ms/step", "32/32 ━━━ 0s 1ms/step", "32/32 - 0s - 1ms/step"});
  EXPECT_EQ(predicted.epochs(), 0);
  EXPECT_EQ(predicted.fits(), 0);
  const ProgressMarks named =
      marks_of({"Epoch 1/2", "8/8 - 1s - 5ms/step - loss: 0.6", "Epoch 2/2",
                "8/8 - 1s - 5ms/step - loss: 0.5", "8/8 [==] - 1s 5ms/step"});
  EXPECT_EQ(named.epochs(), 2);
  EXPECT_EQ(named.fits(), 1);
  EXPECT_EQ(marks_of({"1/1 - 0s - 40ms/step - loss: 2", "1/1 - 0s - 9ms/step - loss: 1"}).fits(),
            2);
  EXPECT_EQ(marks_of({"100%|###| 12/12 [00:09<00:00]", "100%|###| 12/12 [00:09<00:00]"}).epochs(),
            0);
}

TEST(ProgressMarks, CountsTqdmAndWords) {
  EXPECT_EQ(
      marks_of({" 10%|#   | 12/120 [00:01<00:09]", " 20%|##  | 24/120 [00:02<00:08]"}).steps(), 13);
  EXPECT_EQ(marks_of({"step 100 loss 0.3", "step 200 loss 0.2"}).steps(), 101);
  EXPECT_EQ(marks_of({"iter: 5", "iter: 6", "iter: 7"}).steps(), 3);
}

TEST(ProgressMarks, OtherNumbersAreNoProgress) {
  const ProgressMarks marks = marks_of({"2026/11/21 10:00:00 starting", "loss 0.6931", "1/2 cup",
                                        "lr 1e-3", "epochs to go", "timestep"});
  EXPECT_EQ(marks.epochs(), 0);
  EXPECT_LE(marks.steps(), 1);  // "1/2 cup" has the form of a bar
}

TEST(Output, KeepsTheLastLinesOfBothStreams) {
  Output output;
  output.feed(0, "one\ntw");
  output.feed(1, "error\n");
  output.feed(0, "o\nthree");
  output.finish();
  EXPECT_THAT(output.last_lines(), ElementsAre("one", "error", "two", "three"));
  EXPECT_EQ(output.bytes(), 19);
}

TEST(Output, IsBoundedWhateverComes) {
  Output output;
  for (int i = 0; i < 1000; ++i) output.feed(0, "line " + std::to_string(i) + "\n");
  const std::string endless(1 << 20, 'x');
  for (int i = 0; i < 8; ++i) output.feed(1, endless);
  EXPECT_EQ(output.last_lines().size(), Output::kKeptLines);
  for (const std::string& line : output.last_lines()) {
    EXPECT_LE(line.size(), Output::kKeptBytes);
  }
}

TEST(Output, ExplainsAFailureCutIntoBlocks) {
  const std::string log =
      "Epoch 1/5\r\n12/63\rMemoryError: Unable to allocate 7.45 GiB for an array with shape "
      "(1000000000,) and data type float64\n";
  Output output;
  for (const char c : log) output.feed(1, std::string_view(&c, 1));
  const explain::Explanation explanation = output.finish();
  EXPECT_EQ(explanation.resource, explain::Resource::kHostMemory);
  EXPECT_EQ(explanation.family, "numpy_memoryerror");
}

// Nothing of it is text that is kept: what the dump says stands apart.
TEST(Output, OfADumpAlone) {
  const std::string log =
      "== log\nDownloading shards: 100%|xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx| 9/9 [05:01<0or.cc:1062] "
      "Next "
      "region of size 8589934592\n2024-02-03 10:11:12.131700: I tensorflow/core/common_runtime/"
      "bfc_allocator.cc:1083] InUse at 7f3a00000000 of size 402653184 next 12\n2024-02-03 "
      "10:11:12.131800: I tensorflow/core/common_runtime/bfc_allocator.cc:1083] Free  at "
      "7f3a18000000 of size 402d mon3 i";
  Output output;
  for (size_t at = 0, i = 0; at < log.size(); at += 62, ++i) {
    output.feed(i % 3 == 2 ? 1 : 0, log.substr(at, 62));
  }
  output.finish();
  EXPECT_EQ(output.bytes(), static_cast<int64_t>(log.size()));
}

TEST(Output, LineNumbersOfEvidenceAreThoseOfTheOutput) {
  Output output;
  output.feed(0, "\n\nhello\n\nMemoryError\n");
  const explain::Explanation explanation = output.finish();
  ASSERT_FALSE(explanation.evidence.empty());
  EXPECT_EQ(explanation.evidence.front().line, 5);
}

}  // namespace
}  // namespace plimsoll::watch
