#include "planning/sharing.h"

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

// What is asked of a stage that is not the last one.
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
  for (size_t i = 0; i + 1 < stages.size(); ++i) {
    request.shard = stages[i];
    PlannedRun run = plan_run(model, compile, batches, trial(request));
    const bool here = fits(run, request);
    const bool all = ranks == nullptr ? here : !any_rank(*ranks, !here);
    if (ranks != nullptr) ranks->check();
    if (!all) continue;
    // What was left out of the trial is part of a full answer.
    return request.full_answer ? plan_run(model, compile, batches, request) : std::move(run);
  }
  request.shard = stages.back();
  return plan_run(model, compile, batches, request);
}

}  // namespace plimsoll::planning
