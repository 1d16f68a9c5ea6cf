#pragma once

// What a run's steps took, told by layer and operator.

#include <span>
#include <vector>

#include "base/bytes.h"
#include "exec/executor.h"
#include "graph/program.h"
#include "report/profile.h"

namespace plimsoll::train {

// What measuring holds outside of the arena, at most.
inline constexpr Bytes kProfileBytes = 2_MiB;

// Takes the programs that ran on an executor that was asked for times. `estimates`: seconds of a
// run by program and item (plan/facts/estimate.h), or nothing.
report::Profile make_profile(const exec::Executor& executor, const graph::ProgramSet& programs,
                             std::span<const std::vector<double>> estimates);

}  // namespace plimsoll::train
