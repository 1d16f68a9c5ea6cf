#pragma once

// What the planner answered, as the summary that people and scripts read.

#include "layers/model/model.h"
#include "planning/asking.h"
#include "report/plan_summary.h"

namespace plimsoll::planning {

// Model, optimizer, batch, limit, guard and times.
void describe(const layers::Model& model, const layers::CompileOptions& compile,
              const layers::BatchSizes& batches, const PlanRequest& request,
              report::PlanSummary& summary);
// What the kernel set's own blocks reach.
void fill_own_set(const SetAnswer& own, report::PlanSummary& summary);
// What is run, or would be where nothing fits; returns its overhead with what the limit leaves for
// reading ahead and for transfers.
ProcessOverhead fill_chosen(const SetAnswer& chosen, const PlanRequest& request,
                            report::PlanSummary& summary);
// What became of the values of a layer that was asked about; something fits.
void fill_why(const SetAnswer& chosen, const PlanRequest& request, report::PlanSummary& summary);

}  // namespace plimsoll::planning
