#pragma once

// How near each operator of a program is to what the machine could do: calls, time and share of a
// step, and the share of its own limit that it reaches, all nodes of the operator together.
//
// A limit is that of profile.h: max(operations / peak, bytes / bandwidth), summed over the
// operator's nodes, by rates of this machine in the same run. An operator counts as slow where it
// takes kCountsFrom of a step or more and reaches less than kLeastOfLimit of its limit.

#include <cstdint>
#include <string>
#include <vector>

#include "report/profile.h"

namespace plimsoll::report {

inline constexpr double kCountsFrom = 0.005;
inline constexpr double kLeastOfLimit = 0.4;

// All of a program's nodes of one operator, or all of its steps that are no kernel's.
struct CoverageRow {
  std::string name;      // the operator; else "data", "transfer", "other"
  int64_t nodes = 0;     // of the plan, clones apart
  double calls = 0;      // in a step
  double seconds = 0;    // of a step
  double share = 0;      // of the step's time
  double limit = 0;      // seconds of a step; 0: it neither computes nor moves anything
  bool compute = false;  // whether arithmetic sets the larger part of the limit, not memory

  bool is_slow() const {
    return limit > 0 && share >= kCountsFrom && limit < kLeastOfLimit * seconds;
  }
  friend bool operator==(const CoverageRow&, const CoverageRow&) = default;
};

struct Coverage {
  std::string program;
  MachineSpeed machine;
  double seconds = 0;             // of a step
  std::vector<CoverageRow> rows;  // the largest share first
};

// Looks at the training steps, or else at the program that took longest; the profile has a machine.
Coverage find_coverage(const Profile& profile);

// A table by operator, and a line that names the slow ones with what they lose.
std::string to_text(const Coverage& coverage);
// {"program", "machine": {…}, "seconds_per_step", "operators": [{"operator", "nodes",
// "calls_per_step", "seconds_per_step", "share", "limit_seconds", "of_limit", "bound", "slow"}]};
// limit_seconds, of_limit and bound ("compute", "memory") are null where there is no limit.
std::string to_json(const Coverage& coverage);

}  // namespace plimsoll::report
