#pragma once

// Turns a schedule into a plan's tree: loops, calls, feeds, drains and instances.
//
// An input is fed in the innermost loop that holds all its readers; or, with `reread`, once in each
// of the loops that hold some of them, so that it need not be kept in between. An output with a
// batch is drained behind the call that makes its rows, a total behind the loop that completes it.
// Sizes, homes and places are left to complete_sizes and complete_offsets.

#include "plan/tree/schedule.h"

namespace plimsoll::plan {

struct TreeOptions {
  bool reread = false;
};

ProgramPlan build_tree(const Schedule& schedule, const ProgramFacts& facts,
                       const TreeOptions& options);

}  // namespace plimsoll::plan
