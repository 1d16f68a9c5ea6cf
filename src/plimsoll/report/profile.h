#pragma once

// Where a run's time went: by layer and operation, as a table, as JSON, and step by step for a
// viewer of traces.

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::report {

// All runs of one step of a program's plan.
struct ProfileRow {
  std::string layer;  // empty: no layer's
  std::string what;   // the node's or input's name
  std::string kind;   // "kernel", "data", "transfer", "other"
  std::string op;     // kernels
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;  // of all runs; 0 where the operator does not say
  double bytes = 0;  // read and written in all runs
};

// One step in the last run, from its start.
struct ProfileMark {
  size_t row = 0;
  double begin = 0;
  double seconds = 0;
};

struct ProgramProfile {
  std::string program;
  int64_t runs = 0;
  double seconds = 0;  // of all runs
  std::vector<ProfileRow> rows;
  std::vector<ProfileMark> marks;
};

struct Profile {
  std::vector<ProgramProfile> programs;  // that ran
};

// The training steps, or else the program that took longest: what it waited for, its slowest rows,
// and the others' times.
std::string to_text(const Profile& profile);
// {"programs": [{"program", "runs", "seconds", "rows": [{"layer", "what", "kind", "op", "calls",
// "seconds", "flops", "bytes"}]}]}
std::string to_json(const Profile& profile);
// The last run of that program, in Chrome's trace event format (chrome://tracing,
// Perfetto): complete events, microseconds.
std::string to_chrome_trace(const Profile& profile);

}  // namespace plimsoll::report
