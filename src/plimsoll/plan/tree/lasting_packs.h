#pragma once

// Packed weights that outlive a run.
//
// A program that does not write a weight packs it alike in every run. Where nothing else of the
// program has the packed weight's memory, it is there still when the program runs again with no
// other in between, and need not be packed again: a plan says so by the memory that it gives, and
// the executor looks for it (exec/executor.h). Bits do not change.
//
//   run 1   pack w ── conv ── …        run 2   conv ── …        run 3   conv ── …
//   memory  ██████████████████████████████████████████████████████████████████
//
// Packs inside of loops are left alone.

#include <cstdint>
#include <vector>

#include "graph/ir.h"
#include "plan/core/plan.h"
#include "plan/facts/liveness.h"
#include "plan/facts/program_facts.h"

namespace plimsoll::plan {

// Whether the program packs a variable that it does not write.
bool packs_constants(const graph::Graph& graph);

// Numbers of the calls at the program's root that pack a variable in the arena which the program
// does not write; rising.
std::vector<int64_t> find_constant_packs(const ProgramPlan& program, const graph::Graph& graph);

// Those of a placed program whose result has memory of its own.
std::vector<int64_t> find_lasting_packs(const ProgramPlan& program, const graph::Graph& graph);

// Makes what those calls write alive from the first item to the last. `buffers` are the program's.
void keep_packs(const ProgramPlan& program, const std::vector<int64_t>& packs,
                std::vector<Buffer>& buffers);

// Seconds by item number (plan/facts/estimate.h) of a placed program's run after another; `waits`:
// with what they wait for memory (plan/facts/traffic.h).
std::vector<double> estimate_again(const ProgramPlan& program, ProgramFacts& facts, bool waits);

}  // namespace plimsoll::plan
