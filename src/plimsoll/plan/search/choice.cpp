#include "plan/search/choice.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "plan/facts/estimate.h"
#include "plan/facts/traffic.h"
#include "plan/tree/lasting_packs.h"

namespace plimsoll::plan {
namespace {

constexpr double kFreeSlack = 1.02;

double seconds_by(const ProgramPlan& plan, Bytes arena, bool keep_packs, ProgramFacts& choice) {
  std::vector<double> items = estimate_items(plan, choice);
  wait_for_memory(plan, arena, choice, items);
  double seconds = estimate_seconds(plan, items);
  if (!keep_packs) return seconds;
  for (const int64_t pack : find_constant_packs(plan, choice.graph())) {
    seconds -= items[static_cast<size_t>(pack)];
  }
  return seconds;
}

// Gives candidates and plain plans their seconds by `choice`; plain ones become candidates too.
// Phases are found once for all that have the same.
void time_again(Searched& searched, ProgramFacts& facts, ProgramFacts& choice,
                std::span<const StatePlacement> states, const PlanOptions& options) {
  for (PlainPlan& plain : searched.plain) {
    Trials trials(facts, states, options, plain.schedule.phasing);
    plain.point.seconds =
        seconds_by(trials.build(plain.schedule), plain.point.arena_bytes, false, choice);
    searched.candidates.push_back(
        place_candidate(plain.schedule, plain.point.what, trials, states, options));
  }
  std::vector<Candidate*> left;
  for (Candidate& candidate : searched.candidates) left.push_back(&candidate);
  while (!left.empty()) {
    const Phasing phasing = left.front()->schedule.phasing;
    Trials trials(facts, states, options, phasing);
    std::erase_if(left, [&](Candidate* candidate) {
      if (candidate->schedule.phasing != phasing) return false;
      const ProgramPlan plan = trials.build(candidate->schedule);
      candidate->seconds =
          seconds_by(plan, candidate->arena_bytes, candidate->schedule.keep_packs, choice);
      return true;
    });
  }
}

}  // namespace

Searched search_by(ProgramFacts& facts, ProgramFacts* choice,
                   std::span<const StatePlacement> states, const PlanOptions& options,
                   const Wanted& wanted) {
  Searched searched = search_program(facts, states, options, wanted);
  if (choice == nullptr || wanted.smallest_alone) return searched;
  const Bytes least = searched.candidates.front().arena_bytes;
  time_again(searched, facts, *choice, states, options);
  if (options.search_by_choice) {
    Searched other = search_program(*choice, states, options, wanted);
    for (Candidate& candidate : other.candidates) candidate.by_choice = true;
    std::ranges::move(other.candidates, std::back_inserter(searched.candidates));
    searched.cut_short = searched.cut_short || other.cut_short;
  }
  std::erase_if(searched.candidates,
                [&](const Candidate& candidate) { return candidate.arena_bytes < least; });
  std::ranges::stable_sort(searched.candidates, {}, &Candidate::arena_bytes);
  return searched;
}

const Candidate& free_candidate(std::span<const Candidate> candidates) {
  const bool falling = std::ranges::is_sorted(
      candidates, [](const Candidate& a, const Candidate& b) { return a.seconds > b.seconds; });
  if (falling) return candidates.back();
  const double least = std::ranges::min_element(candidates, {}, &Candidate::seconds)->seconds;
  return *std::ranges::find_if(candidates, [&](const Candidate& candidate) {
    return candidate.seconds <= kFreeSlack * least;
  });
}

}  // namespace plimsoll::plan
