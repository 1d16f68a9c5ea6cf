#pragma once

// Improves choices of cuts (plan/tree/cuts.h) of a small program bit by bit.
//
// Giving up what is alive at the peak, one value after the other, never takes anything back, and
// checkpoints are the same for every reader. Here a choice is a subset of a universe of cuts, and
// what no known choice is better than in bytes and in time is kept and changed in its turn: first
// each cut alone is put in or left out (a Pareto local search); where that helps no more, all cuts
// of a stretch of values or of anchors are put in at once, and those that were not needed left out
// again in random order (a large neighbourhood search). The generator is seeded alike each time, so
// equal inputs give equal choices. It knows nothing of plans; the caller scores.

#include <functional>
#include <span>
#include <vector>

#include "plan/tree/cuts.h"

namespace plimsoll::plan {

struct CutChoice {
  std::vector<Cut> cuts;  // those of the universe, in its order
  Bytes load;
  double seconds = 0;
};

// Scores a choice's cuts: fills in load and seconds.
using ScoreCuts = std::function<void(CutChoice&)>;

// The cuts that may pay of values that `tree`, a sized plan without cuts, holds in at least `least`
// bytes: each for each node, after its first reader, that reads it or something made from it; and
// what find_all_cuts (plan/search/schedules.h) has.
std::vector<Cut> find_universe(const ProgramPlan& tree, Bytes least, const ProgramFacts& facts,
                               const Dependencies& dependencies);

// Starts from `known` (of whose cuts those count that the universe has), from no cuts and from all
// at once. Returns the frontier of what was scored, by rising load, seconds strictly falling. At
// most `trials` are scored; it ends sooner when many in a row made nothing better.
std::vector<CutChoice> refine_cuts(std::span<const std::vector<Cut>> known,
                                   std::span<const Cut> universe, const ScoreCuts& score,
                                   int64_t trials);

}  // namespace plimsoll::plan
