#pragma once

// Goes down a ladder of limits with a PhaseSearch (plan/phase_search.h), from what the model's tree
// needs to what can just be met.
//
// Most rungs go on from the choice of the rung before; every few, and those that are missed so,
// begin at a price at which nearly nothing is given up, with more effort. Where the ladder ends
// with a rung that was met, more follow below it.

#include <functional>

#include "plan/phase_search.h"

namespace plimsoll::plan {

struct PhaseLadder {
  // Bytes: it goes down from the first to the last, in so many rungs or in fewer for less effort.
  int64_t most = 0;  // 0: what the tree needs
  int64_t least = 0;
  int64_t rungs = 40;
  int64_t steps = 0;    // effort for all rungs, in nodes scored
  int64_t scoring = 1;  // effort of scoring one choice
};

// Makes and scores the plan of a choice; what each place holds beyond what the model says.
using ScorePhases = std::function<std::vector<int64_t>(const PhaseSearch&)>;

// Scores one choice a rung. Returns the steps that are left, which may be negative.
int64_t descend(const PhaseModel& model, const PhaseLadder& ladder, const ScorePhases& score);

}  // namespace plimsoll::plan
