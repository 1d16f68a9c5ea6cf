#pragma once

// How fast one program of a model ran, as `plimsoll bench` tells it: a line of a table, or one line
// of JSON.

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "report/coverage.h"
#include "report/profile.h"

namespace plimsoll::report {

struct Speed {
  std::string name;     // of the workload, or the model's file
  std::string program;  // "train", "evaluate", "predict"
  std::string precision = "f32";
  std::string isa;
  int threads = 1;
  int64_t parameters = 0;
  int64_t batch = 0;
  int64_t steps = 0;  // that were timed
  double median_seconds = 0;
  double least_seconds = 0;
  Bytes predicted_process;
  Bytes measured_process;  // the highest
  std::optional<Bytes> limit;
  int block_set = 0;
  std::string kernel_set;
  std::optional<Profile> profile;    // where it was asked for
  std::optional<Coverage> coverage;  // likewise
};

// {"workload", "program", "precision", "isa", "threads", "parameters", "batch", "steps",
// "seconds_per_step" (the median), "least_seconds_per_step", "predicted_process_bytes",
// "measured_process_bytes", "limit_bytes", "block_set", "kernel_set", and where they are there
// "profile" as in profile.h and "coverage" as in coverage.h}
std::string to_json(const Speed& speed);

// The head of a table of fixed widths, so that each line can be printed when it is known.
std::string speed_header();
std::string to_line(const Speed& speed);

}  // namespace plimsoll::report
