#pragma once

// Taking cuts back: what evict.h gives up, the other way round.
//
// Under a number of bytes a plan with many recomputations has room where its peak is not. A clone
// there is not needed when the copy before it is kept for the clone's readers. Those that save most
// seconds for a byte go first, as long as the bytes alive stay below the number, on a profile that
// is kept up roughly (a value that is carried from loop to loop has all rows in both). It suggests;
// the caller applies the remaining cuts and scores the true schedule.

#include <vector>

#include "plan/tree/evict.h"

namespace plimsoll::plan {

// The cuts of `occupied` (made with `cuts`) without those that need not be within `most` bytes.
std::vector<Cut> take_back(const Occupied& occupied, const std::vector<Cut>& cuts, Bytes most,
                           ProgramFacts& facts);

}  // namespace plimsoll::plan
