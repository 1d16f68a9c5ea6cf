#pragma once

// Makes a plan's tree: loops, calls, feeds, output items and instances.
//
// An input is fed in the innermost loop that holds all its readers; or, with `reread`, once in each
// of the loops that hold some of them, so that it need not be kept in between. An output with a
// batch is handed out after the call that makes its rows, a total after the loop that completes it.
// Sizes, scopes and places are left to complete_sizes and complete_offsets.

#include "plan/tree/loop_nest.h"

namespace plimsoll::plan {

struct TreeOptions {
  bool reread = false;
};

ProgramPlan build_tree(const LoopNest& loop_nest, const ProgramFacts& facts,
                       const TreeOptions& options);

}  // namespace plimsoll::plan
