#pragma once

// Which of a search's candidates is taken, by the times of another catalog than the one that it was
// searched by (PlanOptions::choice).
//
// What fits must not depend on what somebody measured: candidates are those of a search by the
// backend's own times, and measured ones only say which of them is the fastest. Their seconds need
// not fall with a rising arena any more. More memory is never slower all the same: at a limit the
// fastest candidate that fits is taken, and a larger limit only adds some.

#include <span>
#include <vector>

#include "plan/search/search.h"

namespace plimsoll::plan {

// search_program() with candidates whose seconds are by `choice`; null: by `facts`. With
// options.search_by_choice there are those that a search by its times finds besides, but none
// smaller than the smallest by the others'.
Searched search_by(ProgramFacts& facts, ProgramFacts* choice,
                   std::span<const StatePlacement> states, const PlanOptions& options,
                   const Wanted& wanted = {});

// The one that is run where there is no limit: of candidates whose seconds fall, the last; else the
// smallest of those within 2 % of the fastest.
const Candidate& free_candidate(std::span<const Candidate> candidates);

}  // namespace plimsoll::plan
