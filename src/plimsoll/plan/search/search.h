#pragma once

// The search for plans of one program: candidates, each scored on its true schedule, the best of
// them placed.
//
// A candidate is a schedule: how every phase is cut into slices, by which rule nodes are ordered,
// whether inputs are read again, and which values are not kept (plan/tree/cuts.h). The plain ones
// are tried first. From the best of them on, what is alive at the peak and not used there is given
// up, what frees most bytes for its time first, until nothing is left to give up. Nothing of this
// depends on a limit. Only candidates on the frontier of bytes against seconds are placed.
//
// Where weights are small beside the values, slices and choices in phases are tried with all
// updates after everything else too (plan/search/phases.h), around and below the smallest
// candidate without that.
//
// In programs of at most 64 nodes the choices of cuts after the smallest candidate are then
// improved by single changes and random restarts of stretches (plan/search/refine.h).
//
// Programs of at most 16 nodes with at most 5 cuts are searched through: every shape (slices that
// double, inner loops at the smallest) by every order rule, inputs kept and read again, and every
// set of cuts after a value's first reader. Over that plan space the candidates are the best there
// are, in bytes and in time within them, as far as the effort lasts.
//
// Among the candidates are always the plans that anyone would make: the whole batch with everything
// kept, slices alone, checkpointing, greedy eviction from the whole batch. So what is chosen is
// never worse than the best of them.

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "plan/search/planner.h"
#include "plan/search/trial.h"
#include "plan/tree/complete.h"

namespace plimsoll::plan {

// Schedules are kept and not plans: those of large programs take megabytes each.
struct Candidate {
  Schedule schedule;
  Bytes arena_bytes;  // of the placed plan, and what its clones take besides
  Bytes spill;        // the spill file's end, state variables included
  double seconds = 0;
  std::string what;        // "whole batch", "slices of 4", …
  bool by_choice = false;  // the search that found it went by the times of PlanOptions::choice
};

// A plan that was scored: the bytes alive at once.
struct Loaded {
  Bytes load;
  double seconds = 0;
};

// A plan that anyone would make, not placed.
struct PlainPlan {
  FrontierPoint point;  // the bytes alive at once, which no placement can undercut
  Schedule schedule;
};

struct Searched {
  // By rising arena, seconds strictly falling; the last one is the free plan. Never empty.
  std::vector<Candidate> candidates;
  std::vector<PlainPlan> plain;
  // What was scored without deferred updates, placed or not: by rising bytes alive at once.
  std::vector<Loaded> scored;
  bool cut_short = false;  // with more effort more would have been tried
};

// What of the candidates is asked for.
struct Wanted {
  // The one with the smallest arena, and no other: they are not placed. All of them where its file
  // would have more than `spill` bytes.
  bool smallest_alone = false;
  Bytes spill = Bytes(std::numeric_limits<int64_t>::max());
};

// `states` says where state variables lie. Effort is counted in nodes scored and buffers placed, up
// to options.max_steps, up to half of it more for deferred updates, a tenth for room of transfers,
// and as much again for each other axis; the first candidate is scored and placed whatever it
// costs.
Searched search_program(ProgramFacts& facts, std::span<const StatePlacement> states,
                        const PlanOptions& options, const Wanted& wanted = {});

int64_t count_clones(const ProgramPlan& plan);

// A schedule placed: the candidate of that name, its seconds left at 0.
Candidate place_candidate(Schedule schedule, std::string what, Trials& trials,
                          std::span<const StatePlacement> states, const PlanOptions& options);

// The candidate's plan, complete but for the totals of the whole plan. `facts` are those of the
// search that found it.
ProgramPlan realize(const Candidate& candidate, ProgramFacts& facts,
                    std::span<const StatePlacement> states, const PlanOptions& options);

}  // namespace plimsoll::plan
