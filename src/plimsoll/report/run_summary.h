#pragma once

// What `fit --json` and `evaluate --json` print at the end, and its text form.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace plimsoll::report {

// What a rank sends to others in a step, and how long it waits for them, on average.
struct Exchanged {
  double bytes = 0;
  double messages = 0;
  double seconds = 0;
};

struct RunSummary {
  int64_t steps = 0;
  bool stopped = false;                   // before its end
  double seconds_per_step = 0;            // median
  double estimated_seconds_per_step = 0;  // by which the plan was chosen; 0: not of these steps
  std::string times;                      // that it was estimated by, as in plan_summary.h
  double processor_share = 0;             // of its threads' time in steps; 0: not known
  std::optional<Exchanged> exchanged;     // by the first of several ranks
  Bytes spill;                            // of the spill file; zero: there is none
  Bytes planned_arena;
  Bytes measured_arena;
  Bytes arena_values;  // of it, what state and values take: scratch need not be touched
  Bytes predicted_process;
  Bytes measured_process;
  std::optional<Bytes> limit;
  bool passed_limit = false;
  std::vector<std::pair<std::string, Bytes>> accounted;  // as in plan_summary.h
  int block_set = 0;
  std::string kernel_set;
  std::vector<std::pair<std::string, double>> metrics;  // loss first, of the last epoch
  std::vector<std::string> left_out_metrics{};          // a sentence each
};

// Says that a step took more than 30 % longer or shorter than was estimated, and why; empty where
// it did not, or where fewer than three steps ran.
std::string estimate_note(const RunSummary& summary);
// One JSON object, indented by two; metrics that are not finite are null.
std::string to_json(const RunSummary& summary);
// "peak 22.8 of 64.0 MiB (predicted 28.0 MiB)".
std::string peak_words(Bytes measured, Bytes predicted, std::optional<Bytes> limit);
// A line: steps and their time, the peak against limit and prediction; and estimate_note().
std::string to_text(const RunSummary& summary);

}  // namespace plimsoll::report
