#pragma once

// From a model and a limit to programs, plan and answer: what `plan` prints and `fit` runs.
//
// The limit is the whole process's. The kernel set's own blocks come first; only where nothing with
// them fits are smaller ones tried, all extents above 1 halved, again halved, … (block set 1, 2,
// …), and the first that fits is taken. What is reported of smallest limits does not depend on the
// limit.

#include <optional>
#include <vector>

#include "plan/search/planner.h"
#include "planning/lowering.h"
#include "planning/memory_model.h"
#include "planning/request.h"
#include "report/plan_summary.h"

namespace plimsoll::planning {

struct PlannedRun {
  Lowered lowered;                 // of the chosen block set
  std::optional<plan::Plan> plan;  // none: does not fit
  ProcessOverhead overhead;
  report::PlanSummary summary;
  // Estimated seconds by program and item (plan/facts/estimate.h); empty where nobody wants them.
  std::vector<std::vector<double>> estimates{};
};

PlannedRun plan_run(const layers::Model& model, const layers::CompileOptions& compile,
                    const layers::BatchSizes& batches, const PlanRequest& request);

}  // namespace plimsoll::planning
