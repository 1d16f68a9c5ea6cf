#pragma once

// Gives buffers static offsets in one region: dynamic storage allocation with known intervals.
//
// Several placers run: by size, by lifetime, by area, by start (each takes the buffers in that
// order and puts every one into the lowest gap that holds it), and from the bottom up
// (plan/place/skyline.h). Then, while the region is larger than it need be, the best one's order is
// changed in places and all are placed anew, a bounded number of times. The smallest region wins,
// ties by the order of the placers. The largest sum of bytes alive at once, the load, is a lower
// bound, so the gap is known. Where it stays above 1/512 an exact search (plan/place/pack.h) is
// asked for the load itself and for three capacities above it, with bounded effort each. None of
// this knows of a limit: what fits into less fits into more.
//
//   offset ▲        ┌──────┐
//          │ ┌────┐ │  c   │         c was placed last: the lowest gap over its interval is
//          │ │ b  │ └──────┘         above a, although there is room above b
//          │ ├────┴─────────┐
//          │ │      a       │
//          └─┴──────────────┴──▶ time

#include <span>
#include <vector>

#include "plan/facts/liveness.h"

namespace plimsoll::plan {

struct PlacementResult {
  std::vector<Bytes> offsets;  // one per buffer, multiples of kAlignment
  Bytes region;  // bytes that the placement needs with the gaps, a multiple of kAlignment
  Bytes load;    // lower bound: the most bytes alive at once, each buffer rounded up alike
};

// `gap` bytes stay free after each buffer. `several` off: the first placer only, once.
PlacementResult place_buffers(std::span<const Buffer> buffers, Bytes gap, bool several);

// Every buffer has bytes of its own, one after the other.
PlacementResult place_apart(std::span<const Buffer> buffers, Bytes gap);

// Writes the offsets into the program's instances and calls.
void apply_placement(const PlacementResult& placement, std::span<const Buffer> buffers,
                     ProgramPlan& program);

}  // namespace plimsoll::plan
