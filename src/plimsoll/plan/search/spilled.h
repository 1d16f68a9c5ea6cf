#pragma once

// Plans that use a spill file, beside those of plan/search/planner.h that do not.
//
// The same search, several times: with more and more of the optimizer slots and then of the weights
// in the file (plan/tree/spill_placement.h), values moved there and back besides.
// As there, no candidate depends on the limit, and the answer at a limit is the fastest that fits:
// more memory is never slower among plans with a spill file. Whether one is wanted at all is the
// caller's question.

#include <optional>
#include <vector>

#include "plan/search/planner.h"

namespace plimsoll::plan {

struct SpilledPlans {
  Bytes lower_bound;                    // of the arena
  Bytes smallest;                       // the smallest arena for which a plan was found
  std::vector<FrontierPoint> frontier;  // by rising memory, time strictly falling
  std::optional<Fits> fits;             // the fastest within options.arena_limit
};

// Files may have at most `most` bytes. options.arena_limit none: the fastest plan. Each of the
// searches has a part of the effort of options.max_steps. nullopt: nothing may be moved, or all
// plans found need more than `most`.
std::optional<SpilledPlans> make_spilled_plans(const graph::ProgramSet& programs,
                                               const graph::KernelCatalog& catalog,
                                               const PlanOptions& options, Bytes most);

// The smallest arena among them, and nothing else: for a part of the work. None where there is none
// or options.arena_limit is below the lower bound; with a limit, any within it.
SmallestArena find_smallest_spilled_arena(const graph::ProgramSet& programs,
                                          const graph::KernelCatalog& catalog,
                                          const PlanOptions& options, Bytes most);

}  // namespace plimsoll::plan
