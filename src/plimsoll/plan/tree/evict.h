#pragma once

// What to give up at a plan's peak: cuts of values that are alive there and not used.
//
// For each value that is idle at the peak (or that crosses the boundary of the loop in which the
// peak lies) it knows what a smaller form, a recomputation or a second feed would free there and
// what they would cost, with all that a recomputation needs besides: operands that are alive
// anyway cost nothing, others are kept longer (their bytes are taken off what is freed) or
// recomputed as well. What frees most bytes for a second goes first, then the next peak is looked
// at, on a profile of bytes that is kept up roughly. It suggests; the caller applies the cuts and
// scores the true schedule.

#include <vector>

#include "plan/facts/liveness.h"
#include "plan/tree/cuts.h"

namespace plimsoll::plan {

struct EvictOptions {
  bool forms = true;
  bool recompute = true;
  bool reread = true;
  bool move = false;
};

// A sized plan and what is alive in it.
struct Occupied {
  const ProgramPlan& plan;
  const std::vector<Buffer>& buffers;
};

// Cuts beyond `cuts` that together lower the peak by about `goal` bytes, as far as they go; empty:
// nothing is left to give up there.
std::vector<Cut> find_evictions(const Occupied& occupied, const std::vector<Cut>& cuts, Bytes goal,
                                ProgramFacts& facts, const Dependencies& dependencies,
                                const EvictOptions& options);

}  // namespace plimsoll::plan
