#pragma once

// Blocks of the kernel set's own size, and smaller ones: which are taken, and what all of them
// together reach.

#include <optional>

#include "planning/asking.h"
#include "report/plan_summary.h"

namespace plimsoll::planning {

struct BlockSets {
  SetAnswer chosen;  // the first that fits; the last one that was tried where none does
  // What no plan of the blocks that did not fit can undercut; none: the first ones fit.
  std::optional<report::ProvedBound> bound;
};

// `own`: the answer of the kernel set's own blocks, of which the summary tells already. Smaller
// ones are tried where nothing fits, and asked for the least that they need where the whole answer
// is wanted; what they reach is put into the summary.
BlockSets try_block_sets(const Lowering& lowering, const PlanRequest& request, SetAnswer own,
                         report::PlanSummary& summary);

}  // namespace plimsoll::planning
