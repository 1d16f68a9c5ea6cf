#pragma once

// The one question: what is asked of a plan, whoever asks.
//
// A face's own words (run/request.h) become one in run/settings.cpp; what the search is told of it
// (plan::PlanOptions) is made from it in asking.cpp. The second half is not a person's: how far an
// answer goes, for a session that needs no more than a plan, and for plans that are made on the way
// to another one's answer.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "graph/ranks.h"
#include "layers/training/programs.h"
#include "planning/calibration.h"
#include "planning/memory_model.h"

namespace plimsoll::planning {

// Without a limit a run keeps below so much of what the process may use.
inline constexpr int64_t kGuardPercent = 80;
Bytes guard_without_limit();

enum class SpillUse : uint8_t {
  kNever,
  kIfNeeded,  // where no plan of the same blocks without a file meets the limit
  kAlways,    // the fastest of both
};

// What a second of the time for planning is counted as, on any machine.
inline constexpr int64_t kPlanStepsPerSecond = 100'000;

// What joins ranks: bytes in a second each way, and how long a message is on its way; and the
// standard deviation of how long ranks compute, as a share of it.
struct Network {
  double bytes_per_second = 0;
  double seconds = 0;
  double spread = 0;
  friend bool operator==(const Network&, const Network&) = default;
};

struct PlanRequest {
  std::optional<Bytes> limit;        // none: the free plan
  std::string backend;               // empty: the default
  int parts = 0;                     // of kernels' work; 0: as many as threads
  int threads = 0;                   // 0: from affinity and quota
  int64_t lanes = 0;                 // of the batch (graph/lanes.h), a power of two; 0: one
  graph::RankPlace ranks{};          // who this is of those that share each step
  std::optional<Network> network{};  // that they are joined by, for how long they exchange
  int shard = 0;                     // what they hold in parts (ops/fuse/shards.h)
  int least_shard = 0;               // the lowest stage of that where it may be chosen
  bool beside = false;               // what they exchange goes on beside what they compute
  int searches_before = 0;           // that were made for other stages of that
  uint64_t seed = 0;
  Bytes exchange{};  // what the library that ranks exchange by has taken of the process
  Bytes given;       // what the process held before, where it is not ours (memory_model.h)
  DataMemory data;   // of the data sources
  // They are not known: `data` is what any may take, and the run may have a short last batch. No
  // bound that is proved counts either.
  bool any_data = false;
  int64_t plan_steps = 2 * kPlanStepsPerSecond;
  std::optional<double> max_slowdown;  // the most time against that of the plan without a limit
  std::string without;  // techniques that are switched off (plan/search/techniques.h)
  // A plan's text (plan/tree/text.h) to be run as it is; none: a plan is searched for. It is
  // refused where model, optimizer, batch or rows are not those that it was made for, or the
  // machine's kernels differ. Long names make it long: copies of the request share it.
  std::shared_ptr<const std::string> saved_plan;
  SpillUse spill = SpillUse::kIfNeeded;
  std::string spill_directory;       // empty: the first that will do
  std::optional<Bytes> spill_limit;  // none: half of what is free there
  TimesOptions times;                // of kernels, that plans are chosen by
  std::string why;  // a layer whose values in the chosen plan are told of; empty: none

  // Whether smallest_feasible and largest_feasible_batch are wanted where the limit is met anyway.
  bool full_answer = true;
  bool own_blocks_only = false;  // no smaller blocks where nothing fits
  bool remedies = true;          // where nothing fits, what would do is looked for
  bool extends = true;    // where nothing fits, the search goes on with several times the steps
  bool estimate = false;  // whether RunnablePlan::estimates are wanted, for a run that is profiled
  // Called with what is searched for and what has been found so far, whenever that changes. May be
  // empty.
  std::function<void(const std::string&)> tell = {};
  std::optional<Bytes> found = {};  // the smallest found so far, for that
};

HeldBeside held_beside(const PlanRequest& request);

// Rows that the run will see; 0: no such program.
struct RowCounts {
  int64_t train = 0;
  int64_t evaluate = 0;
  int64_t predict = 0;
  friend bool operator==(const RowCounts&, const RowCounts&) = default;
};

// The programs that such a run needs: full batches, and the short last one.
layers::BatchSizes batch_sizes(int64_t batch, const RowCounts& rows);

// "searching for a plan within 64 MiB".
std::string searching(std::optional<Bytes> limit);
// Says what is done, where anybody listens.
void tell(const PlanRequest& request, const std::string& what);
// How the search goes on: "searching for a plan within 64 MiB, with smaller blocks: smallest found
// so far 71.3 MiB".
void tell_search(const PlanRequest& request, const std::string& how);

}  // namespace plimsoll::planning
