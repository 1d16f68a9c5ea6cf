#pragma once

// Fills in what follows from a plan's structure: the planner's last step, and what makes a plan
// that was written by hand runnable.
//
// The structure is items, loops, bindings, the value, form, copy and spill space of each instance,
// and in_place. All else is computed anew and what was there is overwritten: blocks and scratch
// from the catalog, scopes that are kAutoScope, loop extents that are 0, bytes, offsets, the memory
// of states, totals, thread count and fingerprint. Scopes that are given stay, so that a value may
// live longer than its uses ask. It judges nothing beyond what it needs: the validator does.

#include <set>
#include <span>
#include <string>

#include "graph/kernel_catalog.h"
#include "graph/program.h"
#include "plan/core/plan.h"
#include "plan/facts/liveness.h"
#include "plan/facts/program_facts.h"

namespace plimsoll::plan {

// A scope to be computed: the innermost loop that holds all uses, outside of every loop that an
// accumulator is summed over. Counts as invalid, like the root.
inline constexpr LoopId kAutoScope{int32_t{-2}};

// Offsets in the spill file are multiples of this (a page, for transfers that bypass the cache).
inline constexpr Bytes kSpillAlignment{4096};

struct CompleteOptions {
  Bytes gap = {};  // bytes kept free after each buffer
  bool several_placers = true;
  bool share_memory = true;  // off: every buffer has bytes of its own for the whole program
};

// Throws kConfig where the structure is broken: ids that do not exist, operands or results that do
// not match the node, loops that are not entered once each in the order of their numbers, a kernel
// set other than the catalog's (an empty one is filled in), programs that are not those of the set.
void complete_plan(Plan& plan, const graph::ProgramSet& programs,
                   const graph::KernelCatalog& catalog, const CompleteOptions& options = {});

// Its steps, for the planner. The places of all state variables, one after the other: of those
// that `spilled` names in the spill file (spill_bytes is then where they end), of others in the
// arena.
void place_states(const graph::ProgramSet& programs, Bytes gap,
                  const std::set<std::string>& spilled, Plan& plan);
// Scopes, spaces, bytes and scratch of one program whose structure holds: all but offsets.
void complete_sizes(ProgramPlan& plan, ProgramFacts& facts);
// Offsets in the arena and in the spill file (whose end is returned; state variables lie in front),
// and the program's total.
// `buffers` are those of the arena, as find_buffers gives them.
Bytes complete_offsets(ProgramPlan& plan, const graph::Graph& graph,
                       std::span<const StatePlacement> states, std::span<const Buffer> buffers,
                       const CompleteOptions& options);
// Names, totals and fingerprint, when all programs are complete.
void complete_totals(Plan& plan, const graph::ProgramSet& programs,
                     const graph::KernelCatalog& catalog);

}  // namespace plimsoll::plan
