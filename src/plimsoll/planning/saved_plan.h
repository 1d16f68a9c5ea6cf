#pragma once

// Plans that were written to a file (plan/tree/text.h), read for a run.

#include "layers/model/model.h"
#include "planning/asking.h"

namespace plimsoll::planning {

// The plan's own set of blocks: its programs' names are needed to read it. Throws kConfig where
// model, optimizer, batch or rows are not those that it was made for, where this machine's kernels
// differ, and where it is not valid.
SetAnswer read_saved_plan(const layers::Model& model, const layers::CompileOptions& compile,
                          const layers::BatchSizes& batches, const PlanRequest& request);

}  // namespace plimsoll::planning
