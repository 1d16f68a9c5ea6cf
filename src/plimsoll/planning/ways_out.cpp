#include "planning/ways_out.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "planning/model_variants.h"
#include "planning/planning.h"

namespace plimsoll::planning {
namespace {

// Of the effort goes into each way.
constexpr int64_t kWayShare = 3;

class Ways {
 public:
  Ways(const PlanRequest& request, const report::PlanSummary& summary)
      : request_(request), summary_(summary) {
    request_.full_answer = false;
    request_.own_blocks_only = true;
    request_.extends = false;
    request_.why.clear();
    request_.tell = {};
    request_.plan_steps = std::max<int64_t>(1, request.plan_steps / kWayShare);
  }

  void add_limits() {
    const auto least = std::ranges::find_if(
        summary_.frontier, [&](const auto& point) { return point.seconds <= most_seconds(); });
    if (least != summary_.frontier.end()) {
      ways_.push_back({"--memory " + std::to_string(least->arena_bytes.count()), least->arena_bytes,
                       Bytes(), least->seconds, "the same bits"});
    }
    add_slowdown();
    if (summary_.smallest_feasible > Bytes() &&
        summary_.smallest_feasible < summary_.smallest_same_bits) {
      PlanRequest larger = request_;
      larger.own_blocks_only = false;
      larger.limit = summary_.smallest_feasible;
      larger.plan_steps *= kWayShare;
      larger_limit_ = larger;
    }
  }

  // Plans it; told where it fits.
  void add(const std::string& change, const std::string& effect, const layers::Model& model,
           const layers::CompileOptions& compile, const layers::BatchSizes& batches,
           const PlanRequest& request, double times = 1) {
    add(change, effect, plan_run(model, compile, batches, request).summary, times);
  }

  // The largest groups that fit, a power of two less than the batch (and than the groups that there
  // are), found by halving: as if larger groups never needed less.
  void add_groups(const layers::Model& model, layers::CompileOptions compile,
                  const layers::BatchSizes& batches) {
    const int64_t now = layers::batch_norm_group(compile, batches);
    const int64_t below = now > 0 ? now : batches.train;
    int low = 0;
    int high =
        static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(below, 1) - 1)));
    std::optional<report::PlanSummary> best;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      compile.batch_norm_group = int64_t{1} << middle;
      PlannedRun run = plan_run(model, compile, batches, request_);
      if (!run.plan) {
        high = middle;
        continue;
      }
      best = std::move(run.summary);
      low = middle + 1;
    }
    if (!best) return;
    const std::string samples = std::to_string(best->batch_norm_group);
    add("--batch-norm slice:" + samples,
        "another model: BatchNormalization by groups of " + samples + " samples", *best);
  }

  void add(const std::string& change, const std::string& effect, const report::PlanSummary& found,
           double times = 1) {
    if (found.answer != report::Answer::kFits) return;
    // A variant is as fast as it is against its own plan without a limit, and against this model's.
    if (times * found.seconds_per_step > most_seconds()) return;
    const Bytes bytes = found.predicted_process;
    const Bytes least = found.spill > Bytes() ? bytes : found.smallest_same_bits;
    const Bytes before = summary_.smallest_same_bits;
    ways_.push_back({change, least, before > least ? before - least : Bytes(),
                     times * found.seconds_per_step, effect});
  }

  // Of a step for as many samples; the plan without a limit is the frontier's last.
  double most_seconds() const {
    if (!summary_.max_slowdown || summary_.frontier.empty()) {
      return std::numeric_limits<double>::infinity();
    }
    return *summary_.max_slowdown * summary_.frontier.back().seconds;
  }

  const PlanRequest& request() const { return request_; }
  const std::optional<PlanRequest>& larger_limit() const { return larger_limit_; }
  std::vector<report::WayOut> take() { return std::move(ways_); }

 private:
  // Where the time alone stands in the way: the least that is enough.
  void add_slowdown() {
    if (!summary_.max_slowdown || !summary_.limit || summary_.frontier.empty()) return;
    const plan::FrontierPoint* fastest = nullptr;
    for (const plan::FrontierPoint& point : summary_.frontier) {
      if (point.arena_bytes <= *summary_.limit) fastest = &point;
    }
    if (fastest == nullptr) return;
    // Up, so that what is told is enough.
    const double factor = fastest->seconds / summary_.frontier.back().seconds;
    const std::string text = report::format_factor(std::ceil(factor * 100) / 100);
    ways_.push_back({"--max-slowdown " + text, fastest->arena_bytes, Bytes(), fastest->seconds,
                     "the same bits"});
  }

  PlanRequest request_;
  const report::PlanSummary& summary_;
  std::optional<PlanRequest> larger_limit_;
  std::vector<report::WayOut> ways_;
};

// Whether a layer trains by statistics of its batch.
bool has_statistics(const layers::Model& model) {
  for (size_t i = 0; i < model.layer_count(); ++i) {
    const layers::Layer& layer = model.layer(layers::LayerId(i));
    if (layer.mixes_samples()) return true;
  }
  return false;
}

}  // namespace

std::vector<report::WayOut> find_ways_out(const layers::Model& model,
                                          const layers::CompileOptions& compile,
                                          const layers::BatchSizes& batches,
                                          const PlanRequest& request,
                                          const report::PlanSummary& summary) {
  Ways ways(request, summary);
  ways.add_limits();
  if (const std::optional<PlanRequest>& larger = ways.larger_limit()) {
    ways.add("--memory " + std::to_string(summary.smallest_feasible.count()),
             "equal to rounding, with smaller blocks", model, compile, batches, *larger);
  }
  if (request.spill == SpillUse::kNever) {
    PlanRequest with_file = ways.request();
    with_file.spill = SpillUse::kIfNeeded;
    ways.add("a spill file (without --no-spill)", "the same bits", model, compile, batches,
             with_file);
  }
  const int64_t batch = summary.largest_feasible_batch.value_or(0);
  if (batch > 0 && batch < batches.train) {
    layers::BatchSizes smaller;
    smaller.train = batch;
    ways.add("--batch " + std::to_string(batch), "other steps: more of them, with less in each",
             model, compile, smaller, ways.request(),
             static_cast<double>(batches.train) / static_cast<double>(batch));
  }
  if (!compile.optimizer.is_null() && batches.train > 0) {
    if (has_statistics(model)) ways.add_groups(model, compile, batches);
    for (const ModelVariant& variant : find_variants(model, compile)) {
      ways.add(variant.change, variant.effect, variant.model, variant.compile, batches,
               ways.request());
    }
  }
  return ways.take();
}

}  // namespace plimsoll::planning
