#include "trace/run_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace plimsoll::trace {
namespace {

class RunLogTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  std::string text() const { return read_text_file(path_, 1 << 24); }

  const std::string path_ = ::testing::TempDir() + "run_log_test.jsonl";
};

constexpr const char* kTwoEpochs =
    "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}\n"
    "{\"epoch\": 1, \"loss\": 2.5, \"seconds\": 1.0}\n{\"step\": 3, \"loss\": 1}\n";

TEST_F(RunLogTest, ResumedLogsCutOffWhatWillHappenAgain) {
  for (const char* cut : {"", "{\"step\": 4, \"lo"}) {
    write_text_file(path_, std::string(kTwoEpochs) + cut);
    RunLog(path_, 2, 1).step(3, 7);
    const std::string want = std::string(kTwoEpochs).substr(0, text().find("{\"step\": 3"));
    EXPECT_EQ(text(), want + "{\"step\": 3, \"loss\": 7}\n");
  }
}

TEST_F(RunLogTest, ResumedLogsKeepWhatIsBefore) {
  write_text_file(path_, kTwoEpochs);
  RunLog(path_, 3, 1).step(4, 1);
  EXPECT_EQ(text(), std::string(kTwoEpochs) + "{\"step\": 4, \"loss\": 1}\n");
  RunLog(path_, 2, 0).step(3, 1);  // epoch 1 had not been recorded as whole
  EXPECT_EQ(text(), std::string(kTwoEpochs).substr(0, 46) + "{\"step\": 3, \"loss\": 1}\n");
}

TEST_F(RunLogTest, LinesMayCrossThePiecesThatAreRead) {
  std::string lines;
  for (int step = 1; step <= 20000; ++step) {
    lines += "{\"step\": " + std::to_string(step) + ", \"loss\": 0.5}\n";
  }
  write_text_file(path_, lines);
  { const RunLog log(path_, 12345, 0); }
  const std::string kept = text();
  EXPECT_EQ(kept, lines.substr(0, lines.find("{\"step\": 12346,")));
}

TEST_F(RunLogTest, WithoutAFileAResumedLogStartsOne) {
  RunLog(path_, 5, 0).step(6, 1);
  EXPECT_EQ(text(), "{\"step\": 6, \"loss\": 1}\n");
}

TEST_F(RunLogTest, AFileWithoutLinesIsNotReadWhole) {
  write_text_file(path_, std::string(3 << 20, 'x'));
  RunLog(path_, 5, 0).step(6, 1);
  EXPECT_EQ(text(), "{\"step\": 6, \"loss\": 1}\n");
}

}  // namespace
}  // namespace plimsoll::trace
