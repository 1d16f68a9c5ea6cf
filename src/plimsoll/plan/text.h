#pragma once

// Plans as text, both ways: parse(print(p)) == p. The form is drawn in docs/reference/plan-file.md.
//
// Nodes, values and states are called by name, instances by %number, loops by L<number>. Bounded:
// absurd sizes are refused. parse resolves names only; whether the plan is right is the
// validator's question.

#include <string>
#include <string_view>

#include "graph/program.h"
#include "plan/plan.h"

namespace plimsoll::plan {

std::string print(const Plan& plan, const graph::ProgramSet& programs);
// Throws kConfig with line number, expected, received.
Plan parse(std::string_view text, const graph::ProgramSet& programs);

}  // namespace plimsoll::plan
