#pragma once

// Choices in phases on a ladder of limits from the whole batch down, each scored as a plan; what
// the plan takes beyond the model is added to the model for the next rung.
//
// Most rungs go on from the choice of the rung before; every few, and those that are missed so,
// begin at a price at which nearly nothing is given up, with more effort. Where the ladder ends
// with a rung that was met, more follow below it.
//
// Whether the last rungs are met is luck, and what is added for a bad choice stays with those that
// follow. So the choice that needs least is brought down again and again in the end, each time from
// that choice and from what was added until then.

#include <functional>

#include "plan/search/phase_search.h"

namespace plimsoll::plan {

// From `most` to `least` bytes.
struct PhaseLadder {
  int64_t most = 0;  // 0: what the tree needs
  int64_t least = 0;
  int64_t rungs = 40;
  int64_t attempts = 0;  // at less than what needs least: a quarter of the effort more
  int64_t steps = 0;     // effort for the rungs, in nodes scored
  int64_t scoring = 1;   // effort of scoring one choice
};

// Makes and scores the plan of a choice; what each place holds beyond what the model says.
using ScorePhases = std::function<std::vector<int64_t>(const PhaseSearch&)>;

// Scores one choice a rung, and up to three an attempt. Returns the steps that are left, which may
// be negative.
int64_t descend(const PhaseModel& model, const PhaseLadder& ladder, const ScorePhases& score);

}  // namespace plimsoll::plan
