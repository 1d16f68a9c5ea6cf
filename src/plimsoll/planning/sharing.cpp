#include "planning/sharing.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "ops/fuse/shards.h"

namespace plimsoll::planning {
namespace {

// The stages that make a difference to a model's programs.
std::vector<int> stages_of(const layers::Model& model, const layers::CompileOptions& compile,
                           const layers::BatchSizes& batches, PlanRequest request) {
  std::vector<int> stages;
  uint64_t last = 0;
  for (request.shard = 0; request.shard <= ops::kMostShardStage; ++request.shard) {
    const Lowered lowered = lower(model, compile, batches, request, 0);
    const uint64_t programs = graph::fingerprint(lowered.built.set);
    if (!stages.empty() && programs == last) continue;
    stages.push_back(request.shard);
    last = programs;
  }
  return stages;
}

// What is asked of each stage first.
PlanRequest trial(PlanRequest request) {
  request.own_blocks_only = true;
  request.full_answer = false;
  request.remedies = false;
  if (request.spill == SpillUse::kIfNeeded) request.spill = SpillUse::kNever;
  return request;
}

bool fits(const PlannedRun& run, const PlanRequest& request) {
  return run.summary.fits() &&
         (request.limit || run.summary.predicted_process <= guard_without_limit());
}

// The largest number of any rank's.
int64_t most_of(Ranks* ranks, int64_t own) {
  for (int width = 1; ranks != nullptr && width < ranks->count(); width *= 2) {
    int64_t other = 0;
    ranks->swap(ranks->rank() ^ width, std::as_bytes(std::span(&own, 1)),
                std::as_writable_bytes(std::span(&other, 1)));
    ranks->check();
    own = std::max(own, other);
  }
  return own;
}

}  // namespace

PlannedRun plan_shared_run(const layers::Model& model, const layers::CompileOptions& compile,
                           const layers::BatchSizes& batches, const PlanRequest& asked,
                           std::optional<int> stage, Ranks* ranks) {
  PlanRequest request = asked;
  if (request.ranks.count == 1 || batches.train == 0) {
    return plan_run(model, compile, batches, request);
  }
  if (ranks != nullptr) {
    expect_equal_on(*ranks, "--shard", stage ? std::to_string(*stage) : "auto");
  }
  std::vector<int> stages;
  if (stage) {
    stages.push_back(*stage);
  } else {
    stages = stages_of(model, compile, batches, request);
  }
  int64_t least = 0;  // of what the ranks need with a stage, the one that needs most
  for (size_t i = 0; stages.size() > 1 && i < stages.size(); ++i) {
    PlanRequest tried = trial(request);
    tried.shard = stages[i];
    PlannedRun run = plan_run(model, compile, batches, tried);
    const Bytes smallest = run.summary.smallest_same_bits;
    if (most_of(ranks, fits(run, tried) ? 0 : 1) == 0) {
      request.shard = stages[i];
      // What was left out of the trial is part of a full answer.
      return request.full_answer ? plan_run(model, compile, batches, request) : std::move(run);
    }
    const int64_t needed = most_of(ranks, smallest.count());
    if (i > 0 && needed >= least) continue;
    least = needed;
    request.shard = stages[i];
  }
  if (stages.size() == 1) request.shard = stages.front();
  return plan_run(model, compile, batches, request);
}

}  // namespace plimsoll::planning
