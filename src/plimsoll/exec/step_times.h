#pragma once

// What each step of a program took, over all runs of it that are not forgotten and in the last one.
//
// For finding what is slow; nothing reads it while a program runs. Room for everything is made
// before the first run. Two readings of a clock for each step: some tens of nanoseconds.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/tables.h"

namespace plimsoll::exec {

// One step of the plan: a node's call, or what is no node's.
struct StepTime {
  enum class Kind : uint8_t { kCall, kData, kTransfer, kOther } kind = Kind::kOther;
  graph::NodeId node;  // kCall
  std::string name;    // of the node or input
  int64_t item = 0;    // number on the plan's line of time (plan/facts/liveness.h)
  int phase = -1;      // which of the loops at the root it stands in; −1: in none
  int64_t runs = 0;
  double seconds = 0;
};

// One step as it ran, from the start of its program's last run.
struct StepMark {
  size_t step = 0;  // in StepTimes::steps
  double begin = 0;
  double seconds = 0;
};

class StepTimes {
 public:
  StepTimes(const ProgramTables& tables, const graph::Program& program);

  void start_run();
  void end_run();
  void begin_step() { began_ = Time::now(); }
  void end_step(size_t position);
  // What was measured so far counts no longer. Between runs.
  void forget();

  int64_t runs() const { return runs_; }
  double seconds() const { return seconds_; }  // of all runs
  const std::vector<StepTime>& steps() const { return steps_; }
  // At most kMostMarks; what came later is left out.
  const std::vector<StepMark>& marks() const { return marks_; }

  static constexpr size_t kMostMarks = 1 << 15;

 private:
  using Time = std::chrono::steady_clock;

  std::vector<StepTime> steps_;  // by position in ProgramTables::steps
  std::vector<StepMark> marks_;
  Time::time_point run_began_;
  Time::time_point began_;
  int64_t runs_ = 0;
  double seconds_ = 0;
};

}  // namespace plimsoll::exec
