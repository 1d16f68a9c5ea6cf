#pragma once

// The search for plans of one program: a fixed list of candidates, each scored on its true
// schedule, the best of them placed.
//
// Candidates are recipes: how every phase is cut, by which rule nodes are ordered, whether inputs
// are read again. Nothing of them depends on a limit. Scoring builds the tree, lets results take
// over memory, and finds the bytes alive at once (which no placement can undercut) and the
// estimated seconds. Only candidates that could still be on the frontier are placed.

#include <span>
#include <string>
#include <vector>

#include "plan/complete.h"
#include "plan/planner.h"

namespace plimsoll::plan {

// A program's plan, complete but for the totals of the whole plan.
struct Candidate {
  ProgramPlan plan;
  Bytes spill;
  double seconds = 0;
  std::string what;  // "whole batch", "slices of 4", …
};

// By rising arena, seconds strictly falling; the last one is the free plan. Never empty. `states`
// says where state variables lie. Effort is counted in nodes scored and buffers placed, up to
// options.max_steps; the first candidate is scored and placed whatever it costs.
std::vector<Candidate> search_program(ProgramFacts& facts, std::span<const StatePlacement> states,
                                      const PlanOptions& options);

// Estimated seconds of one run: calls, copies, and the turns of loops.
double estimate_seconds(const ProgramPlan& plan, ProgramFacts& facts);

}  // namespace plimsoll::plan
