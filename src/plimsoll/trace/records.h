#pragma once

// What is recorded of a run: plain events, and their form as lines of JSON.
//
//   {"run": 1, "model": "cnn.json", "batch": 128, …}          once, first, in files that have it
//   {"step": 17, "loss": 0.502}
//   {"epoch": 1, "loss": 0.431, "accuracy": 0.843, "val_loss": 0.39, "seconds": 3.1}
//   {"memory": 17, "process_bytes": …, "peak_bytes": …, "arena_bytes": …}   "memory": the step
//
// The first key tells the event. "run" carries the version of the form; a file without it is
// version 1. Later versions may add keys, so unknown keys of known events are skipped; an unknown
// event of a known version is an error. Numbers read back as the same double; a number that is not
// finite is null, and reads back as NaN.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"

namespace plimsoll::trace {

inline constexpr int64_t kVersion = 1;

// The plan that a run follows.
struct RunEvent {
  int64_t version = kVersion;
  std::string model;
  int64_t batch = 0;
  Bytes planned_arena;
  Bytes predicted_process;
  std::optional<Bytes> limit;
  std::string kernel_set;
  int64_t block_set = 0;
  friend bool operator==(const RunEvent&, const RunEvent&) = default;
};

struct StepEvent {
  int64_t step = 0;
  double loss = 0;
  friend bool operator==(const StepEvent&, const StepEvent&) = default;
};

struct EpochEvent {
  int64_t epoch = 0;
  std::vector<std::pair<std::string, double>> metrics;  // loss first; validation's with "val_"
  double seconds = 0;
  friend bool operator==(const EpochEvent&, const EpochEvent&) = default;
};

// Readings after a step (see base/process_memory.h).
struct MemoryEvent {
  int64_t step = 0;
  Bytes process;
  Bytes peak;
  Bytes arena;
  friend bool operator==(const MemoryEvent&, const MemoryEvent&) = default;
};

using Event = std::variant<RunEvent, StepEvent, EpochEvent, MemoryEvent>;

// One line, its end included. The metric names "epoch" and "seconds" are taken: such a metric gets
// an underscore after it.
std::string to_line(const Event& event);
// Throws kData with the text where it is no event.
Event parse_line(std::string_view line);

// All events of a file. A last line that is cut short (the run was killed) is left out; any other
// line that is no event is kData with its number. Throws kIo.
std::vector<Event> read_events(const std::string& path);

}  // namespace plimsoll::trace
