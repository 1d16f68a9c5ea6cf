#pragma once

// Estimated costs of a plan's calls, remembered where its loops have numbers
// (plan/facts/loop_chains.h).
//
// They decide between plans and never change a result.

#include <span>
#include <vector>

#include "plan/facts/program_facts.h"

namespace plimsoll::plan {

// The cost of a call in the body of `around`, whose chain has that number, with all its inputs
// plain.
const ProgramFacts::CallCost& find_call_cost(const ProgramPlan& plan,
                                             std::span<const LoopId> parents, LoopId around,
                                             const Call& call, ChainId chain, ProgramFacts& facts);

// Whether the call's result is its operand's bytes, in their place.
bool moves_nothing(const ProgramPlan& plan, const Call& call, const graph::Graph& graph);

// By item number (plan/facts/liveness.h), over all iterations; zero where a loop begins. A
// transfer's begin has what the disk takes, its wait what the kernels in between lose to it.
std::vector<double> estimate_items(const ProgramPlan& plan, ProgramFacts& facts);

// Estimated seconds of one run: calls, copies, and the iterations of loops; transfers overlap with
// what stands between their begin and their wait, and with the iterations of their loop.
double estimate_seconds(const ProgramPlan& plan, ProgramFacts& facts);
// The same of items that take so long.
double estimate_seconds(const ProgramPlan& plan, std::span<const double> items);

}  // namespace plimsoll::plan
