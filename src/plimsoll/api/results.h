#pragma once

// What runs and plans answer.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/verdict.h"

namespace plimsoll {

// By name, in Keras's order; the loss first.
using MetricValues = std::vector<std::pair<std::string, double>>;

struct EpochReport {
  int64_t epoch = 0;       // from 1
  MetricValues metrics{};  // then those of validation, with "val_"
  double seconds = 0;
};

// What was planned, and what the kernel says that was taken.
struct MemoryUse {
  Bytes planned_arena{};
  Bytes measured_arena{};
  Bytes predicted_process{};
  // The highest so far, of everything that this process did; with `given`, since the run was
  // planned.
  Bytes measured_process{};
  std::optional<Bytes> limit{};
  bool passed_limit = false;  // the process took more than its limit: a fault of Plimsoll
};

struct History {
  std::vector<EpochReport> epochs{};
  int64_t steps = 0;
  double seconds_per_step = 0;  // median
  MemoryUse memory{};
  bool interrupted = false;     // by request_stop
  bool logs_whole = true;       // every log was written to its end
  bool checkpoint_kept = true;  // where it ended is on disk, or no checkpoints were asked for
  std::string profile{};        // where the time went, as a table and as JSON; empty: not asked for
  std::string profile_json{};
};

// What plan() answers. Sizes are of the whole process unless the name says arena.
struct PlanAnswer {
  using Answer = Verdict;
  struct Point {
    Bytes memory{};
    double seconds_per_step = 0;  // estimated
    std::string strategy{};       // "slices of 4"
  };
  struct Culprit {
    std::string layer{};
    Bytes bytes{};
    std::string what{};  // "activations", "gradients", "weights", "optimizer", "scratch", "input"
  };

  Answer answer = Answer::kFits;
  std::string reason{};  // why it does not fit; empty where it does
  Bytes planned_arena{};
  Bytes predicted_process{};
  double seconds_per_step = 0;  // estimated
  std::string strategy{};
  int block_set = 0;

  Bytes lower_bound{};         // below this it is impossible
  Bytes smallest_feasible{};   // the smallest limit with a plan
  Bytes smallest_same_bits{};  // the smallest with the same bits as without a limit
  Bytes free_plan{};           // what the fastest plan takes
  std::optional<int64_t> largest_feasible_batch{};
  std::vector<Point> frontier{};    // by rising memory
  std::vector<Culprit> culprits{};  // at the peak of the fastest plan, largest first

  std::string text{};  // what `plimsoll plan` prints
  std::string json{};  // what `plimsoll plan --json` prints
  std::string html{};  // a page
  std::string plan{};  // the chosen plan, for RunOptions::plan; empty where nothing fits

  bool fits() const { return answer == Answer::kFits; }
};

// One output's values for every sample.
struct Predictions {
  std::vector<int64_t> shape{};  // the sample first
  std::vector<float> values{};
};

}  // namespace plimsoll
