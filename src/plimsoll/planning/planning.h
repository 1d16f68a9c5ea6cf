#pragma once

// The one answer: from a model and a limit to what `plan` prints and `fit` runs.
//
// The limit is the whole process's. The kernel set's own blocks come first; only where nothing with
// them fits are smaller ones tried, all extents above 1 halved, again halved, … (block set 1, 2,
// …), and the first that fits is taken. What is reported of smallest limits does not depend on the
// limit.
//
//   plan::PlanOutcome     the search's answer for one set of programs, in bytes of the arena
//   SetAnswer             one block set's, in bytes of the process (asking.h)
//   PlannedRun            the run's: what is printed, and what is run where it fits
//   plimsoll::PlanAnswer  the same printed and as numbers, for programs in C++ (api/results.h)

#include <optional>
#include <vector>

#include "plan/core/plan.h"
#include "planning/lowering.h"
#include "planning/memory_model.h"
#include "planning/request.h"
#include "report/plan_summary.h"

namespace plimsoll::planning {

// A plan with all that a session needs to run it.
struct RunnablePlan {
  Lowered lowered;  // of the chosen block set
  plan::Plan plan;
  ProcessOverhead overhead;
  // Estimated seconds by program and item (plan/facts/estimate.h); empty where nobody wants them.
  std::vector<std::vector<double>> estimates{};
};

struct PlannedRun {
  report::PlanSummary summary;
  std::optional<RunnablePlan> runnable;  // where summary.fits()
};

PlannedRun plan_run(const layers::Model& model, const layers::CompileOptions& compile,
                    const layers::BatchSizes& batches, const PlanRequest& request);

}  // namespace plimsoll::planning
