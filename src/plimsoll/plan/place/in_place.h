#pragma once

// Lets results reuse the memory of operands that die.
//
// A result may overwrite an operand where the operator allows it (Op::aliases), the operand's last
// use is this very call, both have one scope and the same bytes, and no block reads rows that an
// earlier block has overwritten. In a loop over rows of state variables both may also be the
// root's, where the call overwrites in each iteration the rows that it alone has read. The memory
// of a state variable is reused only by the value that is written to it, so that its state_write
// has nothing left to do; any later reader of the old value forbids it.

#include "plan/facts/dependencies.h"

namespace plimsoll::plan {

// Sets in_place, and the space of what lies in a state's memory then. Sizes must be complete.
void reuse_in_place(const ProgramFacts& facts, const Dependencies& dependencies, ProgramPlan& plan);

}  // namespace plimsoll::plan
