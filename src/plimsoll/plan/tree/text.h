#pragma once

// Plans as text, both ways: parse(print(p)) == p. The form is drawn in docs/reference/plan-file.md.
//
// Nodes, values and states are called by name, instances by %number, loops by L<number>. Bounded:
// absurd sizes are refused. parse resolves names only; whether the plan is right is the
// validator's question. What a text leaves out stays empty (scopes: kAutoScope) and is filled in by
// complete_plan (plan/tree/complete.h), so that plans can be written by hand.

#include <string>
#include <string_view>

#include "graph/program.h"
#include "plan/core/plan.h"

namespace plimsoll::plan {

// What the text of every plan begins with.
inline constexpr std::string_view kPlanBegins = "plan kernel_set=";

// Throws kInternal where a plan has no text: ids of nodes, values, axes or loops that do not exist,
// or loops that are not entered once each in the order of their numbers.
std::string print(const Plan& plan, const graph::ProgramSet& programs);
// Throws kConfig with line number, expected, received.
Plan parse(std::string_view text, const graph::ProgramSet& programs);
// Its first line alone, by which the programs are made that it is a plan of: kernel set, block set,
// parts, lanes, fingerprint.
Plan parse_head(std::string_view text);

}  // namespace plimsoll::plan
