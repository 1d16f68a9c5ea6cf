#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "base/error.h"
#include "plan/core/walk.h"
#include "plan/search/candidates.h"
#include "plan/tree/lasting_packs.h"
#include "plan/tree/spill_placement.h"

namespace plimsoll::plan {
namespace {

// Room for transfers, as multiples of what is alive at once without any; of so many candidates at
// most, at this part of the search's effort.
constexpr std::array<double, 2> kRooms = {1.2, 1.5};
constexpr size_t kMostRoomy = 12;
constexpr int64_t kRoomEffort = 10;

// Completes the plan of a schedule, which was built and sized.
Bytes place_schedule(const Schedule& schedule, const ProgramFacts& facts,
                     std::span<const StatePlacement> states, const PlanOptions& options,
                     ProgramPlan& plan) {
  std::vector<Buffer> buffers = find_buffers(plan);
  if (schedule.keep_packs) {
    keep_packs(plan, find_constant_packs(plan, facts.graph()), buffers);
  }
  const CompleteOptions how{.gap = options.gap, .several_placers = options.several_placers};
  return complete_offsets(plan, facts.graph(), states, buffers, how);
}

}  // namespace

int64_t count_clones(const ProgramPlan& plan) {
  int64_t count = 0;
  walk_items(plan, [&](const Item& item, int64_t, LoopId) {
    const auto* call = std::get_if<Call>(&item);
    if (call != nullptr && call->clone > 0) ++count;
  });
  return count;
}

std::vector<Candidate> keep_packs_of(std::span<const Candidate> candidates, ProgramFacts& facts,
                                     std::span<const StatePlacement> states,
                                     const PlanOptions& options) {
  std::vector<Candidate> kept;
  if (!packs_constants(facts.graph()) || has_spilled_states(facts.graph(), states)) return kept;
  Trials trials(facts, states, options);
  for (const Candidate& candidate : candidates) {
    if (candidate.schedule.phasing != Phasing()) continue;
    ProgramPlan plan = trials.build(candidate.schedule);
    const std::vector<int64_t> packs = find_constant_packs(plan, facts.graph());
    if (packs.empty()) continue;
    const std::vector<double> seconds = estimate_items(plan, facts);
    Candidate twin = candidate;
    twin.schedule.keep_packs = true;
    for (int64_t pack : packs) twin.seconds -= seconds[static_cast<size_t>(pack)];
    twin.what += ", packed weights kept";
    twin.spill = place_schedule(twin.schedule, facts, states, options, plan);
    twin.arena_bytes = plan.arena_bytes + options.clone_bytes * count_clones(plan);
    kept.push_back(std::move(twin));
  }
  return kept;
}

std::vector<Candidate> give_room_to(std::span<const Candidate> candidates, ProgramFacts& facts,
                                    std::span<const StatePlacement> states,
                                    const PlanOptions& options) {
  std::vector<Candidate> roomy;
  if (!has_spilled_states(facts.graph(), states)) return roomy;
  const int64_t nodes = std::max<int64_t>(1, std::ssize(facts.graph().nodes));
  const int64_t affordable = options.max_steps / kRoomEffort / nodes;
  const auto most = std::min(kMostRoomy, static_cast<size_t>(affordable) / kRooms.size());
  std::vector<const Candidate*> bases;
  for (const Candidate& candidate : candidates) bases.push_back(&candidate);
  std::ranges::stable_sort(bases, {}, &Candidate::arena_bytes);
  const size_t count = std::min(most, bases.size());
  for (size_t b = 0; b < count; ++b) {
    const Candidate& base = *bases[b * bases.size() / count];
    Trials trials(facts, states, options, base.schedule.phasing);
    const Bytes load = find_load(find_buffers(trials.build(base.schedule)), kAlways);
    for (const double room : kRooms) {
      Schedule schedule = base.schedule;
      schedule.room = Bytes(static_cast<int64_t>(room * load.size()));
      ProgramPlan plan = trials.build(schedule);
      const double seconds = estimate_seconds(plan, facts);
      if (seconds >= kFaster * base.seconds) continue;
      Candidate candidate{std::move(schedule), {}, {}, seconds, base.what};
      candidate.spill = place_schedule(candidate.schedule, facts, states, options, plan);
      candidate.arena_bytes = plan.arena_bytes + options.clone_bytes * count_clones(plan);
      roomy.push_back(std::move(candidate));
    }
  }
  return roomy;
}

Candidate place_candidate(Schedule schedule, std::string what, Trials& trials,
                          std::span<const StatePlacement> states, const PlanOptions& options) {
  Candidate candidate{std::move(schedule), {}, {}, 0, std::move(what)};
  ProgramPlan plan = trials.build(candidate.schedule);
  candidate.spill = place_schedule(candidate.schedule, trials.facts(), states, options, plan);
  candidate.arena_bytes = plan.arena_bytes + options.clone_bytes * count_clones(plan);
  return candidate;
}

ProgramPlan realize(const Candidate& candidate, ProgramFacts& facts,
                    std::span<const StatePlacement> states, const PlanOptions& options) {
  Trials trials(facts, states, options, candidate.schedule.phasing);
  ProgramPlan plan = trials.build(candidate.schedule);
  place_schedule(candidate.schedule, facts, states, options, plan);
  PLIMSOLL_CHECK(
      plan.arena_bytes + options.clone_bytes * count_clones(plan) == candidate.arena_bytes,
      "a schedule gives one plan");
  return plan;
}

}  // namespace plimsoll::plan
