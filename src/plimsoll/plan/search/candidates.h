#pragma once

// The last step of a search: what it scored becomes candidates, placed and by rising arena.
//
// Only what is wanted is placed. A score's load, and what its clones take besides, is the least
// that its arena can be; so the smallest arena is found by placing the most promising scores until
// no other one can be smaller.

#include <functional>
#include <span>
#include <vector>

#include "plan/search/search.h"
#include "plan/search/trial.h"

namespace plimsoll::plan {

// A score on the frontier of bytes against seconds.
struct Rung {
  size_t score = 0;  // its number
  Bytes load;
  int64_t clones = 0;  // at most as many as its plan has
  double seconds = 0;
};

// What counts as faster; sums of the same seconds in another order do not.
inline constexpr double kFaster = 1 - 1e-6;

// By rising arena up to `most`, seconds strictly falling.
std::vector<Candidate> keep_frontier(std::vector<Candidate> placed, Bytes most);

// `rungs`: by rising load, seconds strictly falling; the last one is the free plan. `place` makes a
// candidate of one. With `small` each rung is a candidate, else those on a ladder of loads.
std::vector<Candidate> place_rungs(std::span<const Rung> rungs, bool small, Bytes clone_bytes,
                                   const Wanted& wanted,
                                   const std::function<Candidate(const Rung&)>& place);

// The same candidates with memory of their own for packed weights (plan/tree/lasting_packs.h),
// without the time of packing them; none where the program packs nothing, or changes what it packs.
std::vector<Candidate> keep_packs_of(std::span<const Candidate> candidates, ProgramFacts& facts,
                                     std::span<const StatePlacement> states,
                                     const PlanOptions& options);

// Some of the candidates again, each with room for transfers that are drawn further apart and for
// updates that are done whole; none where no state variable lies in the spill file.
std::vector<Candidate> give_room_to(std::span<const Candidate> candidates, ProgramFacts& facts,
                                    std::span<const StatePlacement> states,
                                    const PlanOptions& options);

}  // namespace plimsoll::plan
