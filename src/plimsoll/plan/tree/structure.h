#pragma once

// The parts of completing a plan: that its structure holds together, and scopes.

#include "plan/core/extents.h"
#include "plan/core/plan.h"
#include "plan/facts/program_facts.h"

namespace plimsoll::plan {

// Throws kConfig, naming program and item: what complete_plan needs of a plan's structure.
void check_structure(const ProgramPlan& plan, const ProgramFacts& facts);

// Scopes that are kAutoScope; all others stay.
void find_scopes(ProgramPlan& plan, const AxisTable& axes);

// Extents of loops that are 0: the slice of the loop around of the same axis, or the whole extent
// of the axis that the first call inside binds to. Throws kConfig where no call says it.
void find_loop_extents(ProgramPlan& plan, const ProgramFacts& facts);

}  // namespace plimsoll::plan
