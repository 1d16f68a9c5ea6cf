#pragma once

// What `plimsoll plan` answers, as data and as JSON for scripts (plan_text.h: as people read it).
//
// All sizes are of the whole process (base/process_memory.h says what counts) unless the name says
// arena. The field names of the JSON form are fixed; docs/reference/cli.md lists them. Everything
// but limit, verdict and the chosen plan is independent of the limit that was asked about.

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/verdict.h"
#include "plan/search/planner.h"
#include "plan/search/why.h"

namespace plimsoll::report {

// One line of the process's memory: engine, kernels, tables, data buffers, weights, …
struct MemoryPart {
  std::string name;
  Bytes bytes;
  friend bool operator==(const MemoryPart&, const MemoryPart&) = default;
};

// An option that is given another value, or first given: --memory and 24.3MiB.
struct OptionChange {
  std::string option{};  // empty: no option does it
  std::string value{};
  bool left_out = false;  // a flag that was given and must not be
  friend bool operator==(const OptionChange&, const OptionChange&) = default;
};

// What a remedy changes, the cheapest first.
enum class Changes : uint8_t { kNothing, kRounding, kSteps, kModel };

// By what a remedy meets the limit.
enum class Means : uint8_t { kMemory, kMemoryAndFile, kFile, kTime, kBatch, kOther };

// A change that would meet the limit, as it was planned.
struct Remedy {
  std::string change;
  Bytes smallest;               // that the process needs then
  Bytes saved;                  // against the smallest with the same bits; zero: none
  double seconds_per_step = 0;  // within the limit, for as many samples as before
  std::string effect;           // what becomes of the result
  Changes changes = Changes::kNothing;
  OptionChange option{};
  Means means = Means::kOther;
  friend bool operator==(const Remedy&, const Remedy&) = default;
};

// What no plan can need less than, and why.
struct ProvedBound {
  Bytes bytes;
  std::string proof;
  friend bool operator==(const ProvedBound&, const ProvedBound&) = default;
};

// Why the limit is not met, and what would do.
struct Refusal {
  std::string reason;  // the proof, or what closes the gap
  // It holds for all plans that were looked for; none: a saved plan was asked for, none searched.
  std::optional<ProvedBound> bound{};
  bool proved = false;  // the limit is below the bound
  std::vector<Remedy> remedies{};
  int longer_search = 0;  // seconds of --plan-time that might find a plan; 0: no longer one would
};

// A step of so many ranks, each with as many samples as the one that was planned.
struct RankScale {
  int64_t ranks = 1;
  int64_t batch = 0;
  double seconds = 0;     // of a step
  double waited = 0;      // of it, while bytes are exchanged and nothing is computed
  double efficiency = 1;  // of what as many compute that exchange nothing and are equally fast
};

// What one of several ranks sends in a training step.
struct RankExchange {
  Bytes bytes;
  int64_t messages = 0;
  double seconds = 0;  // that takes over the network that was named; 0: none was
  double waited = 0;   // of that, while nothing is computed
  // Samples in a second, against that many times those of one process; 0: not asked for.
  double efficiency = 0;
  double slowest = 0;  // how much longer the slowest rank computes, as a share; 0: all are equal
  std::vector<RankScale> scaling{};  // empty: no network was named
};

// The answer for one run, as it is printed.
struct PlanSummary {
  std::string model;
  int64_t batch = 0;
  int64_t parameter_count = 0;
  std::string optimizer;
  std::string data;       // how large the data are, of what, how much is resident; empty: not told
  bool any_data = false;  // none were named: what any may take is counted, and a short last batch

  std::optional<Refusal> refusal{};  // none: it fits
  std::optional<Bytes> limit;        // none: the free plan was asked for
  Bytes reserve{};  // of the limit, what others may take; figures of limits hold it
  // The most time, against that of the plan without a limit; none: any.
  std::optional<double> max_slowdown;
  std::string times;  // "measured here on …", "of the model"; empty: not told
  bool times_measured = false;
  std::string guard;  // "memory cgroup v2, limit 64 MiB", "none: …"

  // The chosen plan's; that of the smallest one where nothing fits.
  Bytes planned_arena;
  Bytes arena_load;  // of these, what no placement could undercut; zero where nothing fits
  Bytes predicted_process;
  std::vector<MemoryPart> parts;      // add up to predicted_process
  std::vector<MemoryPart> accounted;  // bounds by the parts of base/accounted.h; do not add up
  double seconds_per_step = 0;        // estimate
  std::string strategy;               // "slices of 4"
  std::string kernel_set;
  std::string precision = "f32";  // "bf16": mixed
  int64_t batch_norm_asked = 0;   // samples whose statistics BatchNormalization was to take
  int64_t batch_norm_group = 0;   // the same in these programs; 0: the whole batch's
  int block_set = 0;
  int kernel_parts = 1;                  // into which kernels cut their work
  int64_t lanes = 1;                     // of the batch
  int threads = 1;                       // that run them
  int ranks = 1;                         // that share every step; this is what one of them takes
  int shard = 0;                         // what they hold in parts (ops/fuse/shards.h)
  int64_t sharded_states = 0;            // so many state variables
  std::optional<RankExchange> exchange;  // none: one process

  Bytes lower_bound;  // without a spill file
  // With one; none: it is not allowed, or nobody needed to know.
  std::optional<Bytes> lower_bound_with_spill;
  bool searched_all = false;  // more effort would not have tried more plans with the same bits
  bool smallest_is_proved = false;  // no plan with the same bits is smaller, without a spill file
  Bytes smallest_feasible;          // zero: was not asked for
  Bytes smallest_same_bits;
  std::optional<Bytes> smallest_with_spill;  // the same bits, with a spill file; none: not searched
  Bytes spill;                               // of the chosen plan's spill file; zero: it has none
  Bytes free_plan;                           // zero: a saved plan, nothing was searched
  std::optional<int64_t> largest_feasible_batch;
  std::vector<plan::FrontierPoint> frontier;  // arena_bytes here: of the whole process
  std::vector<plan::FrontierPoint> plain;     // plans that anyone would make, alike
  std::vector<plan::Culprit> culprits;
  std::string why_layer;              // that was asked about; empty: none
  std::vector<plan::ValueStory> why;  // its values in the chosen plan

  bool fits() const { return !refusal; }
  Verdict verdict() const {
    if (fits()) return Verdict::kFits;
    return refusal->proved ? Verdict::kImpossible : Verdict::kNotFound;
  }
};

// "full", "slice:4": as the option spells what was asked for.
std::string batch_norm_name(const PlanSummary& summary);
// The least memory that would do: what the first line of a refusal names.
Bytes needed(const PlanSummary& summary);
// One JSON object, indented by two.
std::string to_json(const PlanSummary& summary);

}  // namespace plimsoll::report
