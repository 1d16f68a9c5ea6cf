#include "planning/sharing.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/fuse/shards.h"
#include "planning/tuning.h"

namespace plimsoll::planning {
namespace {

// The stages that make a difference to a model's programs, and what all of them are of.
struct Stages {
  std::vector<int> each;
  std::string program;
};

Stages find_stages(const layers::Model& model, const layers::CompileOptions& compile,
                   const layers::BatchSizes& batches, PlanRequest request) {
  Stages stages;
  uint64_t last = 0;
  for (request.shard = request.least_shard; request.shard <= ops::kMostShardStage;
       ++request.shard) {
    const Lowered lowered = lower(model, compile, batches, request, 0);
    const uint64_t programs = graph::fingerprint(lowered.built.set);
    if (!stages.each.empty() && programs == last) continue;
    if (stages.each.empty()) stages.program = training_fingerprint(lowered);
    stages.each.push_back(request.shard);
    last = programs;
  }
  return stages;
}

// Ranks with other stages would exchange other things.
void expect_equal_stages(Ranks& ranks, const Stages& stages) {
  expect_equal_on(ranks, "the model, optimizer and loss", stages.program);
  std::string text;
  for (const int stage : stages.each) text += (text.empty() ? "" : ", ") + std::to_string(stage);
  expect_equal_on(ranks, "the stages of sharding that this run has", text);
}

// What a rank has too little; 0: it fits.
int64_t lack_of(const PlannedRun& run, const PlanRequest& request) {
  const report::PlanSummary& summary = run.summary;
  const Bytes most = request.limit.value_or(guard_without_limit());
  if (!summary.fits()) return std::max<int64_t>(1, (report::needed(summary) - most).count());
  return request.limit ? 0 : std::max<int64_t>(0, (summary.predicted_process - most).count());
}

// The largest number of any rank's; without ranks that are here, this one's.
int64_t most_of(Ranks* ranks, int64_t own) { return ranks == nullptr ? own : most_on(*ranks, own); }

// What is asked of all stages, one after another: plans with the kernel set's blocks and without a
// spill file, then with one, and then with smaller blocks too, which give other bits.
std::vector<PlanRequest> trials_of(const PlanRequest& request, Ranks* ranks) {
  PlanRequest all = request;
  all.full_answer = false;
  all.remedies = false;
  PlanRequest own_blocks = all;
  own_blocks.own_blocks_only = true;
  PlanRequest plain = own_blocks;
  if (request.spill == SpillUse::kIfNeeded) plain.spill = SpillUse::kNever;
  const bool files = most_of(ranks, request.spill == SpillUse::kIfNeeded ? 1 : 0) > 0;
  return files ? std::vector{plain, own_blocks, all} : std::vector{plain, all};
}

bool equal_on_all(Ranks* ranks, int64_t own) { return ranks == nullptr || equal_on(*ranks, own); }

// What ranks leave of the speed of as many processes by themselves, each with the whole batch.
void fill_efficiency(const layers::Model& model, const layers::CompileOptions& compile,
                     const layers::BatchSizes& batches, PlanRequest request, PlannedRun& run) {
  if (!request.network || !run.summary.fits()) return;
  const int64_t ranks = request.ranks.count;
  request.lanes = request.lanes == 0 ? ranks : request.lanes;
  request.ranks = {};
  request.shard = 0;
  request.limit.reset();
  request.full_answer = false;
  request.remedies = false;
  const PlannedRun alone = plan_run(model, compile, batches, request);
  report::RankExchange& exchange = *run.summary.exchange;
  exchange.efficiency = alone.summary.seconds_per_step /
                        (static_cast<double>(ranks) *
                         (run.summary.seconds_per_step * (1 + exchange.slowest) + exchange.waited));
}

PlannedRun plan_stage(const layers::Model& model, const layers::CompileOptions& compile,
                      const layers::BatchSizes& batches, const PlanRequest& asked,
                      std::optional<int> stage, Ranks* ranks) {
  PlanRequest request = asked;
  if (request.ranks.count == 1 || batches.train == 0) {
    return plan_run(model, compile, batches, request);
  }
  if (ranks != nullptr) {
    expect_equal_on(*ranks, "--shard", stage ? std::to_string(*stage) : "auto");
  }
  if (stage) {
    request.shard = *stage;
    return plan_run(model, compile, batches, request);
  }
  const Stages stages = find_stages(model, compile, batches, request);
  if (ranks != nullptr) expect_equal_stages(*ranks, stages);
  request.shard = stages.each.front();
  if (stages.each.size() == 1 && ranks == nullptr) {
    return plan_run(model, compile, batches, request);
  }
  // Once for all stages.
  request.times = find_times(model, compile, batches, request);
  request.times.measure_rates = {};
  std::vector<PlanRequest> trials = trials_of(request, ranks);
  int64_t least = 0;  // that the rank which lacks most lacks, with request.shard
  for (PlanRequest& tried : trials) {
    for (const int each : stages.each) {
      tried.shard = each;
      tried.searches_before = request.searches_before;
      PlannedRun run = plan_run(model, compile, batches, tried);
      const int64_t lack = most_of(ranks, lack_of(run, tried));
      // Ranks with other blocks would add in other orders.
      const bool equal = equal_on_all(ranks, run.summary.block_set);
      if (lack == 0 && equal) {
        request.shard = each;
        // What was left out of the trial is part of a full answer.
        return request.full_answer ? plan_run(model, compile, batches, request) : std::move(run);
      }
      request.searches_before += 1 + run.summary.block_set;
      if (each != stages.each.front() && lack >= least) continue;
      least = lack;
      request.shard = each;
    }
  }
  return plan_run(model, compile, batches, request);
}

}  // namespace

PlannedRun plan_shared_run(const layers::Model& model, const layers::CompileOptions& compile,
                           const layers::BatchSizes& batches, const PlanRequest& request,
                           std::optional<int> stage, Ranks* ranks) {
  PlannedRun run = plan_stage(model, compile, batches, request, stage, ranks);
  if (run.summary.ranks > 1) fill_efficiency(model, compile, batches, request, run);
  return run;
}

}  // namespace plimsoll::planning
