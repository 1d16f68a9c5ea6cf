#pragma once

// Fills in what follows from a plan's structure: the planner's last step, and what makes a plan
// that was written by hand runnable.
//
// The structure is items, loops, bindings, the value, form, copy and spill space of each instance,
// and in_place. All else is computed anew and what was there is overwritten: blocks and scratch
// from the catalog, homes that are kAutoHome, bytes, offsets, states, totals, thread count and
// fingerprint. Homes that are given stay, so that a value may live longer than its uses ask. It
// judges nothing beyond what it needs to compute: the validator does.

#include "graph/kernel_catalog.h"
#include "graph/program.h"
#include "plan/plan.h"

namespace plimsoll::plan {

// A home to be computed: the innermost loop that holds all uses, outside of every loop that an
// accumulator is summed over. Counts as invalid, like the root.
inline constexpr LoopId kAutoHome{int32_t{-2}};

struct CompleteOptions {
  Bytes gap;  // bytes kept free behind each buffer
  bool several_placers = true;
  bool share_memory = true;  // off: every buffer has bytes of its own for the whole program
};

// Throws kConfig where the structure is broken: ids that do not exist, operands or results that do
// not match the node, loops that are not entered once each in the order of their numbers, a kernel
// set other than the catalog's (an empty one is filled in), programs that are not those of the set.
void complete_plan(Plan& plan, const graph::ProgramSet& programs,
                   const graph::KernelCatalog& catalog, const CompleteOptions& options = {});

// The memory of all state variables of the set, one behind the other; fills `states` and
// `state_bytes`.
void place_states(const graph::ProgramSet& programs, Plan& plan);

}  // namespace plimsoll::plan
