#pragma once

// What the calls of a plan wait for memory: values that have left the caches since they were
// written or read.
//
// A catalog's seconds are of calls whose operands were just touched. In a plan an operand may have
// been written in an earlier loop, or so long ago in this iteration that it is gone: it comes from
// memory, and where it was written there it went there first. How much a plan touches between two
// uses of a value follows from its tree. Like all times it decides between plans and never changes
// a result.

#include <vector>

#include "plan/facts/program_facts.h"

namespace plimsoll::plan {

// By item number (plan/facts/liveness.h), over all iterations: seconds in which what the item reads
// and writes comes from memory and goes there, by the catalog's rate of that. Zero where all of
// it lies in the caches, and where the catalog does not know of any. `arena`: what the plan takes.
std::vector<double> estimate_traffic(const ProgramPlan& plan, Bytes arena,
                                     const ProgramFacts& facts);

// The items' seconds with that: each takes as long as its work or its traffic, whichever is longer;
// convolutions take the sum of both: they read an image in pieces and compute in between, so that
// little of the reading is hidden.
void wait_for_memory(const ProgramPlan& plan, Bytes arena, const ProgramFacts& facts,
                     std::vector<double>& seconds);

}  // namespace plimsoll::plan
