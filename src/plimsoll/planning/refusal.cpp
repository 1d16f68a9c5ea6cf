#include "planning/refusal.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "report/plan_text.h"

namespace plimsoll::planning {
namespace {

report::ProvedBound find_bound(const SetAnswer& answer, bool spill) {
  report::ProvedBound bound;
  std::string proof;
  const Bytes arena = plan::lower_bound(answer.lowered.built.set, answer.catalog(), &proof, spill);
  bound.bytes = answer.process_bound(arena);
  if (bound.bytes == answer.least_overhead.given + answer.least_overhead.start_up) {
    bound.proof = "starting the process takes that much, whatever the plan";
  } else {
    bound.proof = fmt::format("{} for the process outside of the arena, and {}",
                              to_string(answer.least_overhead.total()), proof);
  }
  return bound;
}

// The smallest of the frontier's plans that take no longer than is allowed.
std::optional<Bytes> smallest_in_time(const report::PlanSummary& summary) {
  if (!summary.max_slowdown || summary.frontier.empty()) return std::nullopt;
  const double most = *summary.max_slowdown * summary.frontier.back().seconds;
  for (const plan::FrontierPoint& point : summary.frontier) {
    if (point.seconds <= most) return point.arena_bytes;
  }
  return std::nullopt;
}

// "31.5 MiB (33030144 B)": rounded figures may look alike where bytes decide.
std::string exactly(Bytes bytes) {
  return fmt::format("{} ({} B)", to_string(bytes), bytes.count());
}

std::string describe_smallest(const report::PlanSummary& summary) {
  const std::optional<Bytes> in_time = smallest_in_time(summary);
  std::string text = "the smallest found at this effort ";
  if (in_time) text += "in that time needs " + exactly(*in_time) + ", and in any time ";
  text += "needs " + exactly(summary.smallest_feasible);
  if (summary.smallest_with_spill) {
    text += " (with the same bits " + exactly(summary.smallest_same_bits) +
            ", and with a spill file " + exactly(*summary.smallest_with_spill) + ")";
  }
  return text;
}

// Longer than what has found none, in seconds.
int longer_search(const PlanRequest& request) {
  constexpr int64_t kLeast = 60;
  constexpr int64_t kMost = 3600;
  const int64_t taken = request.plan_steps / kPlanStepsPerSecond;
  return static_cast<int>(taken < kMost ? std::max(kLeast, 4 * taken) : 0);
}

}  // namespace

void note_bound(const SetAnswer& answer, const PlanRequest& request,
                std::optional<report::ProvedBound>& least) {
  if (!request.limit) return;
  report::ProvedBound bound = find_bound(answer, request.spill != SpillUse::kNever);
  if (!least || bound.bytes < least->bytes) least = std::move(bound);
}

report::Refusal refuse(const report::ProvedBound& bound, const PlanRequest& request,
                       const report::PlanSummary& summary) {
  const Bytes limit = *summary.limit;
  const std::string which = request.spill != SpillUse::kNever ? " that may use a spill file" : "";
  if (limit < bound.bytes) {
    return {"proved: no plan" + which + " can need less than " + exactly(bound.bytes) +
                ", and the limit is " + exactly(limit) + ": " + bound.proof,
            bound, true};
  }
  const std::string slowdown =
      request.max_slowdown ? " that takes at most " + report::format_factor(*request.max_slowdown) +
                                 " the time of the plan without a limit"
                           : "";
  report::Refusal refusal{"no plan" + slowdown + " found within " + exactly(limit) + "; " +
                              describe_smallest(summary) + ", no plan" + which +
                              " can need less than " + exactly(bound.bytes) +
                              ", and a longer search (--plan-time) may close the gap",
                          bound, false};
  if (!summary.searched_all) refusal.longer_search = longer_search(request);
  return refusal;
}

report::Refusal refuse_saved_plan(Bytes needed, Bytes limit) {
  return {"the saved plan needs " + exactly(needed) + " and the limit is " + exactly(limit) +
          ". Leave --plan out, or give it that limit"};
}

}  // namespace plimsoll::planning
