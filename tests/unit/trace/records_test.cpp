#include "trace/records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trace/run_log.h"
#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll::trace {
namespace {

using test::expect_error;
using test::TemporaryFolder;

RunEvent sample_run() {
  RunEvent event;
  event.model = "a \"quoted\" näme.json";
  event.batch = 128;
  event.planned_arena = 5_MiB;
  event.predicted_process = 30_MiB;
  event.limit = 64_MiB;
  event.kernel_set = "k1";
  event.block_set = 2;
  return event;
}

TEST(Records, LinesHaveTheDocumentedForm) {
  EXPECT_EQ(to_line(StepEvent{17, 0.502}), "{\"step\": 17, \"loss\": 0.502}\n");
  EXPECT_EQ(to_line(EpochEvent{1, {{"loss", 0.5}, {"val_loss", 1e-7}}, 3.25}),
            "{\"epoch\": 1, \"loss\": 0.5, \"val_loss\": 1e-07, \"seconds\": 3.25}\n");
  EXPECT_EQ(to_line(MemoryEvent{3, 1_KiB, 2_KiB, Bytes(5)}),
            "{\"memory\": 3, \"process_bytes\": 1024, \"peak_bytes\": 2048, \"arena_bytes\": 5}\n");
  EXPECT_EQ(to_line(StepEvent{0, std::nan("")}), "{\"step\": 0, \"loss\": null}\n");
}

TEST(Records, EveryEventReadsBack) {
  RunEvent unlimited = sample_run();
  unlimited.limit.reset();
  const std::vector<Event> events = {
      sample_run(), unlimited, StepEvent{INT64_MAX, 0.1 + 0.2}, MemoryEvent{1, 1_GiB, 2_GiB, 3_B},
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
  for (const char* line :
       {"", "x", "[1]", "{}", "{\"step\": 1}", "{\"step\": 1.5, \"loss\": 1}",
        "{\"step\": \"a\", \"loss\": 1}", "{\"epoch\": 1, \"loss\": \"x\"}",
        "{\"epoch\": 1, \"loss\": 1}", "{\"memory\": 1}", "{\"loss\": 1}", "{\"run\": 1}"}) {
    expect_error(ErrorKind::kData, "trace: expected a line", [&] { parse_line(line); });
  }
  expect_error(ErrorKind::kData, "a newer plimsoll", [] { parse_line("{\"run\": 2}"); });
}

TEST(Records, LaterVersionsMayAddKeys) {
  EXPECT_EQ(parse_line("{\"step\": 4, \"loss\": 0.5, \"learning_rate\": 0.1}"),
            Event(StepEvent{4, 0.5}));
}

TEST(RunLog, WritesLinesThatReadBack) {
  const TemporaryFolder folder;
  const std::string path = folder / "log.jsonl";
  RunLog log(path);
  log.write(sample_run());
  log.step(1, 0.1);
  log.step(-2, std::nan(""));
  log.step(INT64_MIN, -std::numeric_limits<double>::max());
  log.epoch(1, {{"loss", 0.25}}, 0.5);
  const std::vector<Event> events = read_events(path);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0], Event(sample_run()));
  EXPECT_EQ(events[1], Event(StepEvent{1, 0.1}));
  EXPECT_TRUE(std::isnan(std::get<StepEvent>(events[2]).loss));
  EXPECT_EQ(events[3], Event(StepEvent{INT64_MIN, -std::numeric_limits<double>::max()}));
  EXPECT_EQ(events[4], Event(EpochEvent{1, {{"loss", 0.25}}, 0.5}));
  // The two ways to write a step agree.
  EXPECT_NE(TemporaryFolder::read(path).find(to_line(StepEvent{1, 0.1})), std::string::npos);
}

TEST(RunLog, AKilledRunLeavesWholeLinesBehind) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", "{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"lo");
  EXPECT_EQ(read_events(path), std::vector<Event>{StepEvent({1, 2})});
  folder.write("log", "{\"step\": 1, \"loss\": 2}\nnonsense\n{\"step\": 2, \"loss\": 2}\n");
  expect_error(ErrorKind::kData, "in line 2 of", [&] { read_events(path); });
  expect_error(ErrorKind::kIo, "No such file", [&] { read_events(folder / "none"); });
  expect_error(ErrorKind::kIo, "No such file", [&] { RunLog log(folder / "no/log"); });
}

}  // namespace
}  // namespace plimsoll::trace
