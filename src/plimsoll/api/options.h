#pragma once

// How a model is run: the options of the command line by the same names (docs/reference/cli.md).
//
// Sizes are of the whole process; what is left out comes from the model, the data or the machine.
// In a process that holds much that is not ours (a Python interpreter with its arrays, say) the
// host reads held_by_process() once, before the first call, and passes it to each as `given`:
// `memory` is then the limit of the process all the same, plans are made for what is left of it,
// and the prediction is `given` and our share.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/results.h"
#include "base/bytes.h"

namespace plimsoll {

class Dataset;

// Process memory now (resident pages, page tables, kernel stacks), but for the pages of our own
// code.
Bytes held_by_process();

// Whether values may wait in a file: only where nothing fits without it, never, or wherever that is
// faster.
enum class Spill { kIfNeeded, kNever, kAlways };

// How a model is run; what plan, evaluate and predict take.
struct RunOptions {
  int64_t batch = 32;
  std::optional<Bytes> memory{};  // none: the fastest plan, below 80 % of what may be used
  Bytes given{};                  // in a process that is not ours: held_by_process(), once
  int threads = 0;                // 0: what the process may use
  int parts = 0;                  // as in FitOptions; 0: as many as threads
  int64_t lanes = 0;              // as in FitOptions; 0: 1
  uint64_t seed = 0;              // of initial weights
  // "onednn", "cpu", "reference", "null", "sleeping"; empty: the default.
  std::string backend{};
  std::string times{};  // as in FitOptions
  bool tune = false;
  std::string precision{};  // "f32", or "bf16": mixed precision; empty: as the model's layers say
  // How far the search for a plan goes, in seconds of a machine of today (none: 2, and more where
  // nothing fits); the most time a step may take against the plan without a limit (from 1 on);
  // techniques to do without, separated by commas; a saved plan's file, to be run as it is.
  std::optional<double> plan_time{};
  std::optional<double> max_slowdown{};
  std::string without{};
  std::string plan{};
  // A file that takes what does not fit into memory; its largest size (none: half of what is free)
  // and folder (empty: $TMPDIR, then /var/tmp).
  Spill spill = Spill::kIfNeeded;
  std::optional<Bytes> spill_limit{};
  std::string spill_dir{};
  std::string why{};  // plan: a layer whose values in the chosen plan are told of
  std::function<void(const std::string&)> on_notice{};  // a sentence or more; empty: the log
};

struct FitOptions {
  int64_t batch = 32;
  int64_t epochs = 1;
  std::optional<int64_t> steps{};  // stop after so many in all
  std::optional<Bytes> memory{};   // none: the fastest plan, below 80 % of what may be used
  Bytes given{};                   // in a process that is not ours: held_by_process(), once
  const Dataset* validation = nullptr;
  double validation_split = 0;  // the last part of the data to evaluate on instead
  std::string class_weights{};  // "balanced", or "0:1,1:3.5"
  // "full", "block" (local reads) or "none"; empty: block beyond 1 GiB of data, else full.
  std::string shuffle{};
  uint64_t seed = 0;  // of initial weights, dropout and the order of samples
  int threads = 0;    // 0: what the process may use
  // Into how many parts kernels cut their work. Equal parts give equal bits, on any number of
  // threads; 0: as many as threads, or those of the checkpoint that is resumed.
  int parts = 0;
  // Lanes of the batch, a power of two: each is summed by itself, and their sums are added up in a
  // fixed tree. Equal lanes give equal bits; 0: 1, or those of the checkpoint that is resumed.
  int64_t lanes = 0;
  std::string backend{};
  // Plans are chosen by times that were measured on this machine: the folder of such files; "none":
  // by a model of processors; empty: the user's cache folder. They never change a result.
  std::string times{};
  bool tune = false;        // measures first, within the limit, and keeps that there
  bool progress = false;    // a line on standard error
  std::string precision{};  // "f32", or "bf16": mixed precision; empty: as the model's layers say
  // How far the search for a plan goes, in seconds of a machine of today (none: 2, and more where
  // nothing fits); the most time a step may take against the plan without a limit (from 1 on);
  // techniques to do without, separated by commas; a saved plan's file, to be run as it is.
  std::optional<double> plan_time{};
  std::optional<double> max_slowdown{};
  std::string without{};
  std::string plan{};
  // A file that takes what does not fit into memory; its largest size (none: half of what is free)
  // and folder (empty: $TMPDIR, then /var/tmp).
  Spill spill = Spill::kIfNeeded;
  std::optional<Bytes> spill_limit{};
  std::string spill_dir{};
  // Whether the run plans anew where the memory control group's limit falls, or processes stand
  // still for want of memory.
  bool follow_limits = false;
  bool profile = false;  // measures every step of the plan, for History
  std::string output{};  // the trained model's file, written at the end
  // Logs: JSON lines, one an epoch (and one a step); a table; a folder for TensorBoard with the
  // weights' histograms every so many epochs.
  std::string log{};
  bool log_steps = false;
  std::string csv_log{};
  std::string tensorboard{};
  int64_t histograms = 0;
  // Keras's EarlyStopping and ReduceLROnPlateau by `monitor` (empty: val_loss, or loss):
  // "patience=5,min_delta=0.001", "factor=0.1,patience=10"; a file for the model after its best
  // epoch.
  std::string monitor{};
  std::optional<std::string> early_stopping{};
  std::optional<std::string> reduce_on_plateau{};
  std::string keep_best{};
  // A folder for checkpoints of the run; how often ("500steps", "10min", …; empty: every epoch and
  // every 10 minutes); how many stay; whether to go on from the newest of them.
  std::string checkpoint{};
  std::string checkpoint_every{};
  int checkpoint_keep = 3;
  bool resume = false;
  std::function<void(const std::string&)> on_notice{};  // a sentence or more; empty: the log
  std::function<void(int64_t step, double loss)> on_step{};
  std::function<void(const EpochReport&)> on_epoch{};
  // Before the first step, with what `plimsoll plan` prints of the plan.
  std::function<void(const std::string& plan)> on_plan{};
};

// What is taken in place of what a model's file says.
struct LoadOptions {
  std::string weights{};  // a file whose weights are loaded: .weights.h5, .h5, .keras
  std::vector<std::vector<int64_t>> input_shapes{};  // sizes that it leaves open, without the batch
};

}  // namespace plimsoll
