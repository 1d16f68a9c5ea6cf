#pragma once

// How much of the state ranks that share a training hold in parts (ops/fuse/shards.h).
//
// The lowest stage with which every rank's plan fits its own limit, with the kernel set's blocks
// and without a spill file: what a higher one needs less memory for costs bytes between ranks.
// Where none does, the lowest one that fits with a spill file, then with smaller blocks, too:
// weights in parts take samples group by group, which may need more than whole ones. Where none
// does that either, the one with which the rank that lacks most lacks least. All ranks try the
// stages together.

#include <optional>

#include "base/ranks.h"
#include "planning/planning.h"

namespace plimsoll::planning {

// `stage`: none: the lowest that will do. `ranks`: null where a plan is made for ranks that are not
// here. Throws kConfig where another rank was told another stage or
// has another model.
PlannedRun plan_shared_run(const layers::Model& model, const layers::CompileOptions& compile,
                           const layers::BatchSizes& batches, const PlanRequest& request,
                           std::optional<int> stage, Ranks* ranks);

}  // namespace plimsoll::planning
