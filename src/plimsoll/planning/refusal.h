#pragma once

// Why a limit is not met: below what is proved, or not found.

#include <optional>
#include <string>

#include "planning/asking.h"
#include "report/plan_summary.h"

namespace plimsoll::planning {

// Puts the bound of one block set into `least` where it is lower: the least of all blocks that were
// asked for, of plans that may use a file where one is allowed.
void note_bound(const SetAnswer& answer, const PlanRequest& request,
                std::optional<report::ProvedBound>& least);

// Proved where the limit is below the bound, otherwise not found; without remedies.
report::Refusal refuse(const report::ProvedBound& bound, const PlanRequest& request,
                       const report::PlanSummary& summary);
// Refuses a saved plan that needs more than the limit.
report::Refusal refuse_saved_plan(Bytes needed, Bytes limit);

}  // namespace plimsoll::planning
