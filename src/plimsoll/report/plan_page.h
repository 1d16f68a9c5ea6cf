#pragma once

// The answer of `plimsoll plan` as a page that stands alone: the same figures as its JSON, by their
// keys. It draws and lists what a PlanSummary holds and works nothing out anew.

#include <string>

#include "report/plan_summary.h"

namespace plimsoll::report {

std::string to_html(const PlanSummary& summary);

}  // namespace plimsoll::report
