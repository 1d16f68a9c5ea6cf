#pragma once

// Why a limit is not met: below what is proved, or not found.

#include <optional>
#include <string>

#include "planning/asking.h"
#include "report/plan_summary.h"

namespace plimsoll::planning {

// "31.5 MiB (33030144 B)": rounded figures may look alike where bytes decide.
std::string exactly(Bytes bytes);

// What no plan with these blocks can undercut, in bytes of the whole process, and why.
struct ProcessBound {
  Bytes bytes;
  std::string words;
};

// Puts the bound of one block set into `least` where it is lower: the least of all blocks that were
// asked for, of plans that may use a file where one is allowed.
void note_bound(const SetAnswer& answer, const PlanRequest& request,
                std::optional<ProcessBound>& least);

// Fills answer and reason: impossible where the limit is below the bound, otherwise not found.
void explain_refusal(const ProcessBound& bound, const PlanRequest& request,
                     report::PlanSummary& summary);

}  // namespace plimsoll::planning
