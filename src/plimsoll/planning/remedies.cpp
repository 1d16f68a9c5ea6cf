#include "planning/remedies.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/format.h"
#include "planning/model_variants.h"
#include "planning/planning.h"
#include "report/plan_text.h"
#include "report/units.h"

namespace plimsoll::planning {
namespace {

// Each remedy gets this part of the effort.
constexpr int64_t kRemedyShare = 3;

using report::Changes;
using report::Means;
using report::OptionChange;

// A change and what it does to the result.
struct Proposal {
  std::string change;  // as the command line spells it
  std::string effect;
  Changes changes = Changes::kNothing;
  OptionChange option{};
  Means means = Means::kOther;
};

// Exact in what scripts read, rounded up for people.
Proposal more_memory(Bytes bytes, std::string effect, Changes changes,
                     Means means = Means::kMemory) {
  return {fmt::format("--memory {}", bytes.count()),
          std::move(effect),
          changes,
          {"--memory", report::size_option(bytes)},
          means};
}

class Remedies {
 public:
  Remedies(const PlanRequest& request, const report::PlanSummary& summary)
      : request_(request), summary_(summary) {
    request_.full_answer = false;
    request_.own_blocks_only = true;
    request_.extends = false;
    request_.why.clear();
    request_.tell = {};
    request_.plan_steps = std::max<int64_t>(1, request.plan_steps / kRemedyShare);
  }

  // What the refusal's own search has found.
  void add_limits() {
    const auto least = std::ranges::find_if(
        summary_.frontier, [&](const auto& point) { return point.seconds <= most_seconds(); });
    if (least != summary_.frontier.end()) {
      add(more_memory(least->arena_bytes, "the same bits", Changes::kNothing), least->arena_bytes,
          Bytes(), least->seconds);
    }
    add_slowdown();
  }

  // Limits below that of the frontier's smallest: with a spill file, with smaller blocks.
  std::vector<std::pair<Proposal, PlanRequest>> smaller_limits() const {
    std::vector<std::pair<Proposal, PlanRequest>> limits;
    const Bytes same = summary_.smallest_same_bits;
    const auto add = [&](Bytes bytes, const char* effect, Changes changes, Means means,
                         bool own_blocks) {
      PlanRequest larger = request_;
      larger.own_blocks_only = own_blocks;
      larger.limit = bytes;
      larger.plan_steps *= kRemedyShare;
      limits.emplace_back(more_memory(bytes, effect, changes, means), larger);
    };
    if (summary_.smallest_with_spill && *summary_.smallest_with_spill < same) {
      add(*summary_.smallest_with_spill, "the same bits, with a spill file", Changes::kNothing,
          Means::kMemoryAndFile, true);
    }
    if (summary_.smallest_feasible > Bytes() && summary_.smallest_feasible < same) {
      add(summary_.smallest_feasible, "equal up to rounding, with smaller blocks",
          Changes::kRounding, Means::kMemory, false);
    }
    return limits;
  }

  // Plans it; told where it fits.
  void add(const Proposal& proposal, const layers::Model& model,
           const layers::CompileOptions& compile, const layers::BatchSizes& batches,
           const PlanRequest& request, double times = 1) {
    add(proposal, plan_run(model, compile, batches, request).summary, times);
  }

  // The largest groups of two samples or more that fit, a power of two less than the batch (and
  // than the groups that there are), found by halving: as if larger groups never needed less.
  void add_groups(const layers::Model& model, layers::CompileOptions compile,
                  const layers::BatchSizes& batches) {
    const int64_t now = layers::batch_norm_group(compile, batches);
    const int64_t below = now > 0 ? now : batches.train;
    int low = 1;
    int high =
        static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(below, 1) - 1)));
    std::optional<report::PlanSummary> best;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      compile.batch_norm_group = int64_t{1} << middle;
      PlannedRun run = plan_run(model, compile, batches, request_);
      if (!run.summary.fits()) {
        high = middle;
        continue;
      }
      best = std::move(run.summary);
      low = middle + 1;
    }
    if (!best) return;
    const std::string samples = std::to_string(best->batch_norm_group);
    add({"--batch-norm slice:" + samples,
         "a different model: BatchNormalization over groups of " + samples + " samples",
         Changes::kModel,
         {"--batch-norm", "slice:" + samples}},
        *best);
  }

  void add(const Proposal& proposal, const report::PlanSummary& found, double times = 1) {
    if (!found.fits()) return;
    // A variant is as fast as it is against its own plan without a limit, and against this model's.
    if (times * found.seconds_per_step > most_seconds()) return;
    const Bytes bytes = found.predicted_process;
    const bool usual = found.spill == Bytes() && found.block_set == 0;
    const Bytes least = usual ? found.smallest_same_bits : bytes;
    const Bytes before = summary_.smallest_same_bits;
    add(proposal, least, before > least ? before - least : Bytes(), times * found.seconds_per_step);
  }

  // As it was found, unplanned: no time.
  void add(const Proposal& proposal, Bytes bytes) { add(proposal, bytes, Bytes(), 0); }

  // The most that a step for as many samples may take; the plan without a limit is the frontier's
  // last.
  double most_seconds() const {
    if (!summary_.max_slowdown || summary_.frontier.empty()) {
      return std::numeric_limits<double>::infinity();
    }
    return *summary_.max_slowdown * summary_.frontier.back().seconds;
  }

  const PlanRequest& request() const { return request_; }
  std::vector<report::Remedy> take() { return std::move(found_); }

 private:
  void add(const Proposal& proposal, Bytes smallest, Bytes saved, double seconds) {
    found_.push_back({proposal.change, smallest, saved, seconds, proposal.effect, proposal.changes,
                      proposal.option, proposal.means});
  }

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
    add({"--max-slowdown " + text,
         "the same bits",
         Changes::kNothing,
         {"--max-slowdown", text},
         Means::kTime},
        fastest->arena_bytes, Bytes(), fastest->seconds);
  }

  PlanRequest request_;
  const report::PlanSummary& summary_;
  std::vector<report::Remedy> found_;
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

std::vector<report::Remedy> find_remedies(const layers::Model& model,
                                          const layers::CompileOptions& compile,
                                          const layers::BatchSizes& batches,
                                          const PlanRequest& request,
                                          const report::PlanSummary& summary) {
  Remedies found(request, summary);
  found.add_limits();
  for (const auto& [proposal, larger] : found.smaller_limits()) {
    if (request.full_answer) {
      found.add(proposal, model, compile, batches, larger);
    } else if (!request.max_slowdown) {  // it was found without regard to time
      found.add(proposal, *larger.limit);
    }
  }
  if (!request.full_answer) return found.take();
  if (request.spill == SpillUse::kNever) {
    PlanRequest with_file = found.request();
    with_file.spill = SpillUse::kIfNeeded;
    found.add({"a spill file (without --no-spill)",
               "the same bits",
               Changes::kNothing,
               {.option = "--no-spill", .left_out = true},
               Means::kFile},
              model, compile, batches, with_file);
  }
  const int64_t batch = summary.largest_feasible_batch.value_or(0);
  if (batch > 0 && batch < batches.train && model.stateful_layer().empty()) {
    layers::BatchSizes smaller;
    smaller.train = batch;
    found.add(
        {fmt::format("--batch {}", batch),
         fmt::format("smaller batches, of {}: more steps, with less in each", batch) +
             (has_statistics(model) ? fmt::format(", and BatchNormalization over {} samples", batch)
                                    : std::string()),
         Changes::kSteps,
         {"--batch", std::to_string(batch)},
         Means::kBatch},
        model, compile, smaller, found.request(),
        static_cast<double>(batches.train) / static_cast<double>(batch));
  }
  if (!compile.optimizer.is_null() && batches.train > 0) {
    if (has_statistics(model)) found.add_groups(model, compile, batches);
    for (const ModelVariant& variant : find_variants(model, compile)) {
      const Changes changes = variant.optimizer.empty() ? Changes::kModel : Changes::kSteps;
      OptionChange option;
      if (!variant.optimizer.empty()) option = {"--optimizer", variant.optimizer};
      found.add({variant.change, variant.effect, changes, option}, variant.model, variant.compile,
                batches, found.request());
    }
  }
  return found.take();
}

}  // namespace plimsoll::planning
