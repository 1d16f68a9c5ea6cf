#include "planning/planning.h"

#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "base/format.h"
#include "plan/tree/lasting_packs.h"
#include "plan/validate/validator.h"
#include "planning/asking.h"
#include "planning/block_sets.h"
#include "planning/largest_batch.h"
#include "planning/refusal.h"
#include "planning/remedies.h"
#include "planning/saved_plan.h"
#include "planning/summary.h"
#include "planning/tuning.h"

namespace plimsoll::planning {
namespace {

// `chosen` fits.
RunnablePlan make_runnable(SetAnswer&& chosen, const ProcessOverhead& overhead,
                           const PlanRequest& request) {
  RunnablePlan runnable{{}, chosen.fits()->plan, overhead};
  if (request.estimate) {
    for (size_t p = 0; p < runnable.plan.programs.size(); ++p) {
      plan::ProgramFacts facts(chosen.lowered.built.set.programs[p], chosen.catalog());
      // Plans are compared with what they wait for memory where they are by measured times.
      const bool waits = chosen.timed != nullptr;
      runnable.estimates.push_back(plan::estimate_again(runnable.plan.programs[p], facts, waits));
    }
  }
  runnable.lowered = std::move(chosen.lowered);
  return runnable;
}

PlannedRun run_saved_plan(const layers::Model& model, const layers::CompileOptions& compile,
                          const layers::BatchSizes& batches, const PlanRequest& request) {
  PlannedRun run;
  report::PlanSummary& summary = run.summary;
  describe(model, compile, batches, request, summary);
  SetAnswer chosen = read_saved_plan(model, compile, batches, request);
  fill_own_set(chosen, summary);
  const ProcessOverhead overhead = fill_chosen(chosen, request, summary);
  summary.smallest_same_bits = summary.free_plan = Bytes(0);  // not searched
  summary.smallest_is_proved = false;
  if (request.limit && summary.predicted_process > *request.limit) {
    summary.refusal = refuse_saved_plan(summary.predicted_process, *request.limit);
    return run;
  }
  fill_why(chosen, request, summary);
  run.runnable = make_runnable(std::move(chosen), overhead, request);
  return run;
}

}  // namespace

PlannedRun plan_run(const layers::Model& model, const layers::CompileOptions& compile,
                    const layers::BatchSizes& batches, const PlanRequest& asked) {
  const MemoryTag tag(MemoryPart::kSearch);
  PlanRequest request = asked;
  request.times = find_times(model, compile, batches, asked);
  if (request.saved_plan) return run_saved_plan(model, compile, batches, request);
  PlannedRun run;
  report::PlanSummary& summary = run.summary;
  describe(model, compile, batches, request, summary);
  const Lowering lowering(model, compile, batches, request);
  SetAnswer own = ask_own(lowering, request);
  fill_own_set(own, summary);
  BlockSets found = try_block_sets(lowering, request, std::move(own), summary);
  SetAnswer& chosen = found.chosen;
  if (std::optional<SetAnswer> beside = ask_beside(lowering, request, chosen)) {
    chosen = std::move(*beside);
  }
  const ProcessOverhead overhead = fill_chosen(chosen, request, summary);
  const plan::Fits* const fits = chosen.fits();
  if (fits != nullptr) {
    const plan::Validation verdict =
        plan::validate(fits->plan, chosen.lowered.built.set, chosen.catalog());
    PLIMSOLL_CHECK(verdict.ok(), std::string(to_string(verdict.verdict)) + ": " + verdict.message);
    fill_why(chosen, request, summary);
  } else {
    summary.refusal = refuse(*found.bound, request, summary);
    // Found by a search of plans that may use a file.
    if (request.spill != SpillUse::kNever) summary.lower_bound_with_spill = found.bound->bytes;
  }
  const std::string state = summary.fits() ? std::string("it fits")
                                           : fmt::format("it does not fit, but in {}",
                                                         to_string(report::needed(summary)));
  if (request.full_answer && request.limit) {
    PlanRequest same = request;
    if (summary.spill == Bytes()) same.spill = SpillUse::kNever;
    const int block_set = summary.fits() ? chosen.catalog().block_set() : 0;
    summary.largest_feasible_batch =
        largest_batch(model, compile, same, block_set, summary.fits() ? summary.batch : 0, state);
  }
  if (fits != nullptr) {
    run.runnable = make_runnable(std::move(chosen), overhead, request);
  } else if (request.remedies) {
    tell(request, state + "; planning what else would do");
    summary.refusal->remedies = find_remedies(model, compile, batches, request, summary);
  }
  return run;
}

}  // namespace plimsoll::planning
