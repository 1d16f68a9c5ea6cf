#pragma once

// How long ranks exchange in a training step, over a network that was named.
//
// A message takes its bytes at the network's rate, and each that waits for the one before takes the
// way, thrice where it is so long that it is asked for first. Exchanges go one after another; one
// that is begun goes on beside what is computed until the next one, or until it is needed. Ranks
// are equally fast, or their times are normally distributed with the spread that was named: a rank
// that is slower is so all the step long, and the others wait for the slowest once.

#include "graph/kernel_catalog.h"
#include "graph/program.h"
#include "plan/core/plan.h"
#include "planning/request.h"
#include "report/plan_summary.h"

namespace plimsoll::planning {

// `plan`: of the program; null where none fits, and then nothing is said of what is waited.
report::RankExchange exchange_of(const graph::Program& program, const plan::ProgramPlan* plan,
                                 const graph::KernelCatalog& catalog, const PlanRequest& request);

}  // namespace plimsoll::planning
