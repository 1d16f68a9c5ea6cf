#include "trace/records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "trace/run_log.h"
#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll::trace {
namespace {

using test::expect_error;
using test::TemporaryFolder;

TEST(Records, LinesHaveTheDocumentedForm) {
  EXPECT_EQ(to_line(StepEvent{17, 0.502}), "{\"step\": 17, \"loss\": 0.502}\n");
  EXPECT_EQ(to_line(EpochEvent{1, {{"loss", 0.5}, {"val_loss", 1e-7}}, 3.25}),
            "{\"epoch\": 1, \"loss\": 0.5, \"val_loss\": 1e-07, \"seconds\": 3.25}\n");
  EXPECT_EQ(to_line(StepEvent{0, std::nan("")}), "{\"step\": 0, \"loss\": null}\n");
}

TEST(Records, EveryEventReadsBack) {
  const std::vector<Event> events = {
      StepEvent{INT64_MAX, 0.1 + 0.2},
      EpochEvent{7, {{"loss", 1.0 / 3.0}, {"ünïcode \n", -5e-324}}, 1e300}};
  for (const Event& event : events) EXPECT_EQ(parse_line(to_line(event)), event);
}

TEST(Records, NumbersThatAreNotFiniteReadBackAsNaN) {
  const Event event = parse_line(to_line(StepEvent{1, std::numeric_limits<double>::infinity()}));
  EXPECT_TRUE(std::isnan(std::get<StepEvent>(event).loss));
}

TEST(Records, ReservedMetricNamesAreMoved) {
  const Event event = parse_line(to_line(EpochEvent{1, {{"seconds", 2}, {"epoch", 3}}, 4}));
  EXPECT_EQ(event, Event(EpochEvent{1, {{"seconds_", 2}, {"epoch_", 3}}, 4}));
}

TEST(Records, RefusesWhatIsNoEvent) {
  for (const char* line : {"", "x", "[1]", "{}", "{\"step\": 1}", "{\"step\": 1.5, \"loss\": 1}",
                           "{\"step\": \"a\", \"loss\": 1}", "{\"epoch\": 1, \"loss\": \"x\"}",
                           "{\"epoch\": 1, \"loss\": 1}", "{\"loss\": 1}"}) {
    expect_error(ErrorKind::kData, "trace: expected a line", [&] { parse_line(line); });
  }
}

TEST(Records, LaterVersionsMayAddKeys) {
  EXPECT_EQ(parse_line("{\"step\": 4, \"loss\": 0.5, \"learning_rate\": 0.1}"),
            Event(StepEvent{4, 0.5}));
}

// The events of a file, whose lines must all be whole.
std::vector<Event> events_of(const std::string& path) {
  std::istringstream lines(TemporaryFolder::read(path));
  std::vector<Event> events;
  for (std::string line; std::getline(lines, line);) events.push_back(parse_line(line));
  return events;
}

TEST(RunLog, WritesLinesThatReadBack) {
  const TemporaryFolder folder;
  const std::string path = folder / "log.jsonl";
  RunLog log(path);
  log.step(1, 0.1);
  log.step(-2, std::nan(""));
  log.step(INT64_MIN, -std::numeric_limits<double>::max());
  log.epoch(1, {{"loss", 0.25}}, 0.5);
  const std::vector<Event> events = events_of(path);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0], Event(StepEvent{1, 0.1}));
  EXPECT_TRUE(std::isnan(std::get<StepEvent>(events[1]).loss));
  EXPECT_EQ(events[2], Event(StepEvent{INT64_MIN, -std::numeric_limits<double>::max()}));
  EXPECT_EQ(events[3], Event(EpochEvent{1, {{"loss", 0.25}}, 0.5}));
  // The two ways to write a step agree.
  EXPECT_NE(TemporaryFolder::read(path).find(to_line(StepEvent{1, 0.1})), std::string::npos);
}

// What a killed run left of its last line is written anew.
TEST(RunLog, AResumedRunCutsOffWhatWillHappenAgain) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "log", "{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"loss\": 3}\n{\"step\": 3, \"lo");
  RunLog(path, 1, 0).step(2, 0.5);
  EXPECT_EQ(events_of(path), (std::vector<Event>{StepEvent{1, 2}, StepEvent{2, 0.5}}));
  expect_error(ErrorKind::kIo, "No such file", [&] { RunLog log(folder / "no/log"); });
}

}  // namespace
}  // namespace plimsoll::trace
