#pragma once

// What would help where a limit is not met. Each remedy is planned before it is told.
//
// First what leaves the result as it is (a larger limit, a spill file where none was allowed), then
// a smaller batch, then changes of the model: statistics of BatchNormalization in the largest
// groups that fit, and those of planning/model_variants.h. Only remedies whose plan meets the limit
// are told, but the larger limit always.

#include <vector>

#include "layers/model/model.h"
#include "layers/training/programs.h"
#include "planning/request.h"
#include "report/plan_summary.h"

namespace plimsoll::planning {

// `summary` is the refusal's, complete. Where no full answer is asked for, what the refusal's own
// search has found: larger limits.
std::vector<report::Remedy> find_remedies(const layers::Model& model,
                                          const layers::CompileOptions& compile,
                                          const layers::BatchSizes& batches,
                                          const PlanRequest& request,
                                          const report::PlanSummary& summary);

}  // namespace plimsoll::planning
