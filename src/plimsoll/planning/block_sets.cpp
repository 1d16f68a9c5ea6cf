#include "planning/block_sets.h"

#include <utility>

#include "base/format.h"
#include "planning/refusal.h"

namespace plimsoll::planning {
namespace {

// Halving 2^30 rows leaves nothing above 1.
constexpr int kMostBlockSets = 31;

void tell_smaller_blocks(PlanRequest request, const report::PlanSummary& summary, bool fits) {
  if (fits) {
    tell(request, fmt::format("it fits; searching for the smallest limit: so far {}",
                              to_string(summary.smallest_feasible)));
  } else {
    request.found = report::needed(summary);
    tell_search(request, ", now with smaller blocks");
  }
}

}  // namespace

BlockSets try_block_sets(const Lowering& lowering, const PlanRequest& request, SetAnswer own,
                         report::PlanSummary& summary) {
  summary.smallest_feasible = summary.smallest_same_bits;
  summary.lower_bound = own.process_bound(own.outcome.lower_bound);
  const bool own_fits = own.fits() != nullptr;
  const double free_seconds = own.outcome.free_seconds;
  BlockSets found{std::move(own), std::nullopt};
  SetAnswer& chosen = found.chosen;
  bool fits = own_fits;
  if (!fits) note_bound(chosen, request, found.bound);
  for (int set = 1; set < kMostBlockSets && (request.full_answer || !fits); ++set) {
    if (request.own_blocks_only) break;
    if (all_ones(chosen.lowered.built.set, chosen.catalog()) && !fits) break;
    tell_smaller_blocks(request, summary, fits);
    SetAnswer smaller =
        fits ? ask_smallest(lowering, request, set) : ask(lowering, request, set, free_seconds);
    summary.smallest_feasible =
        min(summary.smallest_feasible, smaller.process(smaller.outcome.smallest));
    summary.lower_bound =
        min(summary.lower_bound, smaller.process_bound(smaller.outcome.lower_bound));
    const bool last = all_ones(smaller.lowered.built.set, smaller.catalog());
    if (!fits) {
      fits = smaller.fits() != nullptr;
      if (!fits) note_bound(smaller, request, found.bound);
      chosen = std::move(smaller);
    }
    if (last) break;
  }
  // Unasked for, and not searched.
  if (!request.full_answer && own_fits) summary.smallest_feasible = Bytes(0);
  return found;
}

}  // namespace plimsoll::planning
