#pragma once

// Gives buffers static offsets in one region: dynamic storage allocation with known intervals.
//
// Several placers run (best fit by size, by lifetime, by area, by start; each with lowest gap); the
// smallest region wins, ties by the order of the placers. The largest sum of bytes alive at once is
// a lower bound, so the gap to it is known.

#include <span>
#include <vector>

#include "plan/liveness.h"

namespace plimsoll::plan {

struct PlacementResult {
  std::vector<Bytes> offsets;  // one per buffer, multiples of kAlignment
  Bytes region;                // bytes that the placement needs
  Bytes load;                  // lower bound: the most bytes alive at once
};

// `gap` bytes stay free behind each buffer. `several` off: the first placer only.
PlacementResult place_buffers(std::span<const Buffer> buffers, Bytes gap, bool several);

// Writes the offsets into the program's instances and calls.
void apply_placement(const PlacementResult& placement, std::span<const Buffer> buffers,
                     ProgramPlan& program);

}  // namespace plimsoll::plan
