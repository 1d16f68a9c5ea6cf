#include "plan/search/planner.h"

#include <algorithm>
#include <limits>

#include "plan/search/all_facts.h"
#include "plan/search/choice.h"
#include "plan/tree/complete.h"
#include "plan/tree/tree.h"

namespace plimsoll::plan {
namespace {

// The candidates of every program; state variables lie alike in all of them.
struct Frontiers {
  Plan base;  // without programs
  std::vector<std::vector<Candidate>> programs;
  std::vector<FrontierPoint> plain;  // of the first program
  bool cut_short = false;
};

Frontiers search_all(const graph::ProgramSet& programs, const AllFacts& all,
                     const PlanOptions& options, const Wanted& wanted = {}) {
  Frontiers frontiers;
  place_states(programs, options.gap, {}, frontiers.base);
  for (size_t p = 0; p < all.all().size(); ++p) {
    Searched searched =
        search_by(all.of(p), all.choice_of(p), frontiers.base.states, options, wanted);
    frontiers.programs.push_back(std::move(searched.candidates));
    frontiers.cut_short |= searched.cut_short;
    if (frontiers.programs.size() > 1) continue;
    for (PlainPlan& plain : searched.plain) {
      plain.point.arena_bytes += frontiers.base.state_bytes;
      frontiers.plain.push_back(std::move(plain.point));
    }
  }
  return frontiers;
}

// Per program the fastest candidate whose arena fits into `bytes`; empty where one has none.
std::vector<const Candidate*> pick(const Frontiers& frontiers, Bytes bytes) {
  std::vector<const Candidate*> picks;
  for (const std::vector<Candidate>& candidates : frontiers.programs) {
    const Candidate* best = nullptr;
    for (const Candidate& candidate : candidates) {
      if (frontiers.base.state_bytes + candidate.arena_bytes > bytes) continue;
      if (best == nullptr || candidate.seconds < best->seconds) best = &candidate;
    }
    if (best == nullptr) return {};
    picks.push_back(best);
  }
  return picks;
}

Bytes arena_of(const Frontiers& frontiers, const std::vector<const Candidate*>& picks) {
  Bytes most;
  for (const Candidate* candidate : picks) most = max(most, candidate->arena_bytes);
  return frontiers.base.state_bytes + most;
}

std::vector<const Candidate*> smallest_of(const Frontiers& frontiers) {
  std::vector<const Candidate*> smallest;
  for (const std::vector<Candidate>& candidates : frontiers.programs) {
    smallest.push_back(&candidates.front());
  }
  return smallest;
}

// Arenas at which some program's choice changes, rising; the last one is the free plan's.
std::vector<FrontierPoint> find_frontier(const Frontiers& frontiers) {
  std::vector<Bytes> limits;
  for (const std::vector<Candidate>& candidates : frontiers.programs) {
    for (const Candidate& candidate : candidates) {
      limits.push_back(frontiers.base.state_bytes + candidate.arena_bytes);
    }
  }
  std::ranges::sort(limits);
  std::vector<FrontierPoint> points;
  for (Bytes limit : limits) {
    const std::vector<const Candidate*> picks = pick(frontiers, limit);
    if (picks.empty()) continue;
    const FrontierPoint point{arena_of(frontiers, picks), picks.front()->seconds,
                              picks.front()->what};
    if (points.empty() || point.seconds < points.back().seconds) points.push_back(point);
  }
  return points;
}

Fits assemble(const Frontiers& frontiers, const std::vector<const Candidate*>& picks,
              const graph::ProgramSet& programs, const AllFacts& all, const PlanOptions& options) {
  Fits fits{frontiers.base, picks.front()->seconds, picks.front()->what};
  for (size_t p = 0; p < picks.size(); ++p) {
    fits.plan.programs.push_back(
        realize(*picks[p], all.searched_by(p, *picks[p]), fits.plan.states, options));
    fits.plan.spill_bytes = max(fits.plan.spill_bytes, picks[p]->spill);
  }
  complete_totals(fits.plan, programs, all.of(0).catalog());
  return fits;
}

// The smallest arena whose plan is not slower than is allowed; beyond every limit where none is.
Bytes smallest_within(const PlanOutcome& outcome, const PlanOptions& options) {
  if (!options.max_slowdown) return outcome.smallest;
  const double free = options.free_seconds > 0 ? options.free_seconds : outcome.free_seconds;
  for (const FrontierPoint& point : outcome.frontier) {
    if (point.seconds <= *options.max_slowdown * free) return point.arena_bytes;
  }
  return Bytes(std::numeric_limits<int64_t>::max());
}

}  // namespace

Bytes counted_bytes(const Plan& plan, Bytes clone_bytes) {
  Bytes most;
  for (const ProgramPlan& program : plan.programs) {
    most = max(most, program.arena_bytes + clone_bytes * count_clones(program));
  }
  return plan.state_bytes + most;
}

PlanOutcome make_plan(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog,
                      const PlanOptions& options) {
  PlanOutcome outcome;
  const AllFacts facts(programs, catalog, options.choice);
  LowerBound bound = find_lower_bound(programs, facts, false);
  outcome.lower_bound = bound.bytes;
  Frontiers frontiers = search_all(programs, facts, options);
  const std::vector<const Candidate*> smallest = smallest_of(frontiers);
  outcome.smallest = arena_of(frontiers, smallest);
  // The first program is the one that is run again and again: the others live in what it needs.
  std::vector<const Candidate*> free = smallest;
  if (!free.empty()) free.front() = &free_candidate(frontiers.programs.front());
  free = pick(frontiers, arena_of(frontiers, free));
  outcome.free_plan = arena_of(frontiers, free);
  outcome.frontier = find_frontier(frontiers);
  // What is within 2 % of the fastest and larger is nobody's plan.
  std::erase_if(outcome.frontier,
                [&](const FrontierPoint& point) { return point.arena_bytes > outcome.free_plan; });
  outcome.plain = std::move(frontiers.plain);
  outcome.cut_short = frontiers.cut_short;
  Fits free_fits = assemble(frontiers, free, programs, facts, options);
  outcome.culprits = find_culprits(free_fits.plan, programs);
  outcome.free_seconds = free_fits.seconds;
  const Bytes least = smallest_within(outcome, options);
  const Bytes limit =
      options.arena_limit.value_or(options.max_slowdown ? least : outcome.free_plan);
  if (limit >= outcome.free_plan && least <= outcome.free_plan) {
    outcome.answer = std::move(free_fits);
  } else if (limit >= least) {
    outcome.answer = assemble(frontiers, pick(frontiers, limit), programs, facts, options);
  } else if (limit < outcome.lower_bound) {
    outcome.answer = Impossible{outcome.lower_bound, std::move(bound.proof)};
  } else {
    outcome.answer = NotFound{outcome.lower_bound};
  }
  return outcome;
}

SmallestArena find_smallest_arena(const graph::ProgramSet& programs,
                                  const graph::KernelCatalog& catalog, const PlanOptions& options) {
  const AllFacts facts(programs, catalog);
  SmallestArena result;
  result.lower_bound = find_lower_bound(programs, facts, false).bytes;
  if (options.arena_limit && result.lower_bound > *options.arena_limit) return result;
  const Frontiers frontiers = search_all(programs, facts, options, {.smallest_alone = true});
  result.smallest = arena_of(frontiers, smallest_of(frontiers));
  return result;
}

Plan naive_plan(const graph::ProgramSet& programs, const graph::KernelCatalog& catalog) {
  Plan plan;
  place_states(programs, Bytes(), {}, plan);
  for (const graph::Program& program : programs.programs) {
    ProgramFacts facts(program, catalog);
    ProgramPlan tree = build_tree(make_flat_loop_nest(facts), facts, {});
    complete_sizes(tree, facts);
    complete_offsets(tree, facts.graph(), plan.states, find_buffers(tree),
                     {.gap = {}, .several_placers = false, .share_memory = false});
    plan.programs.push_back(std::move(tree));
  }
  complete_totals(plan, programs, catalog);
  return plan;
}

}  // namespace plimsoll::plan
