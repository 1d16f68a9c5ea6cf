#include "planning/planning.h"

#include <algorithm>
#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "plan/facts/estimate.h"
#include "plan/search/why.h"
#include "plan/tree/lasting_packs.h"
#include "plan/validate/validator.h"
#include "planning/asking.h"
#include "planning/batch_search.h"
#include "planning/refusal.h"
#include "planning/remedies.h"
#include "planning/saved_plan.h"
#include "planning/summary.h"
#include "planning/tuning.h"

namespace plimsoll::planning {
namespace {

// Halving 2^30 rows leaves nothing above 1.
constexpr int kMostBlockSets = 31;
// Of the effort goes into each batch size that is tried.
constexpr int64_t kBatchShare = 3;
constexpr int64_t kLargestBatchTried = int64_t{1} << 20;

// Largest batch whose plan meets the limit with the kernel set's own blocks or smaller ones.
// `known` fits; 0: none is known to. `state`: what is known by then, for who waits.
std::optional<int64_t> largest_batch(const layers::Model& model,
                                     const layers::CompileOptions& compile, PlanRequest request,
                                     int block_set, int64_t known, const std::string& state) {
  int64_t largest = known;
  request.full_answer = false;
  request.plan_steps = std::max<int64_t>(1, request.plan_steps / kBatchShare);
  return find_largest_batch(known, kLargestBatchTried, [&](int64_t batch) {
    layers::BatchSizes sizes;
    sizes.train = batch;
    tell(request, state + "; searching for the largest batch" +
                      (largest > 0 ? ": so far " + std::to_string(largest) : ""));
    const Lowering lowering(model, compile, sizes, request);
    const bool fits = ask_fits(lowering, request, block_set);
    if (fits) largest = std::max(largest, batch);
    return fits;
  });
}

void tell_smaller_blocks(PlanRequest request, const report::PlanSummary& summary, bool fits) {
  if (fits) {
    tell(request, "it fits; searching for the smallest limit: so far " +
                      to_string(summary.smallest_feasible));
  } else {
    request.found = report::needed(summary);
    tell_search(request, ", now with smaller blocks");
  }
}

void tell_why(const PlanRequest& request, const SetAnswer& chosen, PlannedRun& run) {
  if (request.why.empty() || !run.plan) return;
  run.summary.why_layer = request.why;
  run.summary.why =
      plan::explain_layer(*run.plan, chosen.lowered.built.set, chosen.catalog(), request.why);
}

void estimate(const PlanRequest& request, const SetAnswer& chosen, PlannedRun& run) {
  if (!request.estimate || !run.plan) return;
  for (size_t p = 0; p < run.plan->programs.size(); ++p) {
    plan::ProgramFacts facts(chosen.lowered.built.set.programs[p], chosen.catalog());
    run.estimates.push_back(plan::estimate_again(run.plan->programs[p], facts));
  }
}

PlannedRun run_saved_plan(const layers::Model& model, const layers::CompileOptions& compile,
                          const layers::BatchSizes& batches, const PlanRequest& request) {
  PlannedRun run;
  describe(model, compile, batches, request, run.summary);
  SetAnswer chosen = read_saved_plan(model, compile, batches, request);
  fill_own_set(chosen, run.summary);
  run.overhead = fill_chosen(chosen, true, request, run.summary);
  run.summary.smallest_same_bits = run.summary.free_plan = Bytes(0);  // not searched
  run.summary.smallest_is_proved = false;
  const bool fits = !request.limit || run.summary.predicted_process <= *request.limit;
  run.summary.answer = fits ? report::Answer::kFits : report::Answer::kNotFound;
  if (fits) {
    run.plan = chosen.outcome.fits()->plan;
  } else {
    run.summary.reason = "the saved plan needs " + exactly(run.summary.predicted_process) +
                         " and the limit is " + exactly(*request.limit) +
                         ". Leave --plan out, or give it that limit";
  }
  tell_why(request, chosen, run);
  estimate(request, chosen, run);
  run.lowered = std::move(chosen.lowered);
  return run;
}

}  // namespace

PlannedRun plan_run(const layers::Model& model, const layers::CompileOptions& compile,
                    const layers::BatchSizes& batches, const PlanRequest& asked) {
  const AccountedScope scope(MemoryPart::kSearch);
  PlanRequest request = asked;
  request.times = find_times(model, compile, batches, asked);
  if (request.saved_plan) return run_saved_plan(model, compile, batches, request);
  PlannedRun run;
  report::PlanSummary& summary = run.summary;
  describe(model, compile, batches, request, summary);
  const Lowering lowering(model, compile, batches, request);
  SetAnswer own = ask_by_either(lowering, request);
  summary.times = describe(request.times);
  summary.times_measured = request.times.known != nullptr;
  fill_own_set(own, summary);
  summary.smallest_feasible = summary.smallest_same_bits;
  summary.lower_bound = own.process(own.outcome.lower_bound);
  const bool own_fits = own.fits() != nullptr;
  const double free_seconds = own.outcome.free_seconds;
  std::optional<ProcessBound> bound;
  if (!own_fits) note_bound(own, request, bound);
  SetAnswer chosen = std::move(own);
  bool fits = own_fits;
  for (int set = 1; set < kMostBlockSets && (request.full_answer || !fits); ++set) {
    if (request.own_blocks_only) break;
    if (all_ones(chosen.lowered.built.set, chosen.catalog()) && !fits) break;
    tell_smaller_blocks(request, summary, fits);
    SetAnswer smaller =
        fits ? ask_smallest(lowering, request, set) : ask(lowering, request, set, free_seconds);
    summary.smallest_feasible =
        min(summary.smallest_feasible, smaller.process(smaller.outcome.smallest));
    summary.lower_bound = min(summary.lower_bound, smaller.process(smaller.outcome.lower_bound));
    const bool last = all_ones(smaller.lowered.built.set, smaller.catalog());
    if (!fits) {
      fits = smaller.fits() != nullptr;
      if (!fits) note_bound(smaller, request, bound);
      chosen = std::move(smaller);
    }
    if (last) break;
  }
  // Unasked for, and not searched.
  if (!request.full_answer && own_fits) summary.smallest_feasible = Bytes(0);
  run.overhead = fill_chosen(chosen, fits, request, summary);
  if (fits) {
    summary.answer = report::Answer::kFits;
    run.plan = chosen.fits()->plan;
    const plan::Validation verdict =
        plan::validate(*run.plan, chosen.lowered.built.set, chosen.catalog());
    PLIMSOLL_CHECK(verdict.ok(), std::string(to_string(verdict.verdict)) + ": " + verdict.message);
    tell_why(request, chosen, run);
    estimate(request, chosen, run);
  } else {
    explain_refusal(*bound, request, summary);
  }
  const std::string state = fits ? std::string("it fits")
                                 : "it does not fit, but in " + to_string(report::needed(summary));
  if (request.full_answer && request.limit) {
    PlanRequest same = request;
    if (summary.spill == Bytes()) same.spill = SpillUse::kNever;
    summary.largest_feasible_batch =
        largest_batch(model, compile, same, fits ? chosen.catalog().block_set() : 0,
                      fits ? summary.batch : 0, state);
  }
  if (!fits) {
    tell(request, state + "; planning what else would do");
    summary.remedies = find_remedies(model, compile, batches, request, summary);
  }
  run.lowered = std::move(chosen.lowered);
  return run;
}

}  // namespace plimsoll::planning
