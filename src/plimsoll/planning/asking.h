#pragma once

// The planner asked about one block set, by the memory of the whole process.

#include <memory>
#include <optional>
#include <vector>

#include "plan/search/planner.h"
#include "plan/search/spilled.h"
#include "planning/lowering.h"
#include "planning/memory_model.h"
#include "planning/request.h"

namespace plimsoll::planning {

// What a clone takes in the plan of a training step, and in the one in that of the short last
// batch.
Bytes clone_bytes_of(const graph::ProgramSet& set);

// One block set's answer, in bytes of the whole process.
struct SetAnswer {
  Lowered lowered;
  std::unique_ptr<graph::KernelCatalog> timed;  // by measured times; null: there are none
  ProcessOverhead overhead;
  // The least that it can be, which what is proved counts: as overhead, where the data are known.
  ProcessOverhead least_overhead;
  Bytes clone_bytes;  // what a clone takes outside of the arena
  plan::PlanOutcome outcome;
  std::optional<plan::SpilledPlans> spilled;  // where it was asked for and there are any
  bool takes_file = false;                    // the plan with the file, not the one without

  // What plans are chosen by.
  const graph::KernelCatalog& catalog() const {
    return timed ? *timed : lowered.backend->catalog();
  }
  // What is taken; null: nothing fits.
  const plan::Fits* fits() const { return takes_file ? &*spilled->fits : outcome.fits(); }
  // With the clones of what is taken, which the search counts as part of the arena.
  ProcessOverhead overhead_taken() const;
  // Without a spill file, whatever is taken.
  Bytes process(Bytes arena) const { return process_bytes(without_file(), arena); }
  // With an arena that no plan can undercut.
  Bytes process_bound(Bytes arena) const { return process_bytes(least_overhead, arena); }
  ProcessOverhead without_file() const {
    ProcessOverhead plain = overhead;
    plain.spill = Bytes();
    return plain;
  }
  Bytes process_with_file(Bytes arena) const { return process_bytes(with_file(), arena); }
  ProcessOverhead with_file() const;
};

// The least that a found plan needs, with a spill file where one may be used.
Bytes smallest_of(const SetAnswer& answer);

// What the process takes outside of the arena of these programs.
ProcessOverhead overhead_of(const Lowered& lowered, const PlanRequest& request);

// `free_seconds`: of the plan without a limit with the kernel set's own blocks; 0: this set's.
SetAnswer ask(const Lowering& lowering, const PlanRequest& request, int block_set,
              double free_seconds = 0);
// The answer has the smallest arena and the lower bound alone, whatever the limit is.
SetAnswer ask_smallest(const Lowering& lowering, const PlanRequest& request, int block_set);
// Whether there is a plan within the limit, with a spill file where one may be used.
bool ask_fits(const Lowering& lowering, const PlanRequest& request, int block_set);
// The kernel set's own blocks, with more and more effort where nothing fits and more would be
// tried.
SetAnswer ask_own(const Lowering& lowering, PlanRequest request);
// Where ranks share the steps and something fits without a spill file: a plan with the same blocks
// by which what they exchange goes on beside what is computed; none where that does not fit.
std::optional<SetAnswer> ask_beside(const Lowering& lowering, PlanRequest request,
                                    const SetAnswer& chosen);

}  // namespace plimsoll::planning
