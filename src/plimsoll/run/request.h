#pragma once

// What a person asks for: a model, data, how to run, and what happens at the ends of epochs.
//
// One struct for every face: the command line, C++ and what comes after them fill it in and hand it
// to Run (run.h). Texts keep the spellings of the command line (docs/reference/cli.md); what is
// left out comes from the model's own training configuration, from the data or from the machine.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ranks.h"
#include "data/dataset.h"
#include "planning/request.h"
#include "train/not_finite.h"

namespace plimsoll::run {

// A model's file, and what is taken in place of what it says.
struct ModelRequest {
  std::string path;     // .keras, .h5 or Keras JSON
  std::string weights;  // a file whose weights are loaded in place of the model file's own
  std::vector<std::vector<int64_t>> input_shapes;  // sizes that the file leaves open, no batch
  std::string optimizer;   // "adam(learning_rate=0.001)"; the file's slots are then not used
  std::string loss;        // "sparse_categorical_crossentropy(from_logits=true)"
  std::string metrics;     // "accuracy,mse"
  std::string batch_norm;  // "full" or "slice:N"
};

// How a model is planned and run. Equal settings on equal data are one plan.
struct Settings {
  int64_t batch = 32;                    // samples per step
  std::optional<Bytes> memory;           // of the process; none: the fastest plan, below a guard
  std::string precision;                 // "f32", "bf16"; empty: of the model's layers
  int parts = 0;                         // of kernels' work; 0: a checkpoint's, or threads
  int threads = 0;                       // 0: what the process may use
  int64_t lanes = 0;                     // of the batch, a power of two; 0: a checkpoint's, or 1
  uint64_t seed = 0;                     // of weights, dropout and the order of samples
  std::string backend;                   // empty: the default
  std::optional<double> plan_time;       // effort of the search, in seconds of a machine of today
  std::optional<double> max_slowdown;    // the most time against that of the plan without a limit
  std::string without;                   // techniques that are switched off, separated by commas
  std::string plan;                      // a saved plan's file, to be run as it is
  std::string times;                     // folder of measured times, or "none"; empty: the user's
  bool tune = false;                     // measures times first, and keeps them there
  planning::MeasureRates measure_rates;  // null: rates that are not there are not measured
  planning::SpillUse spill = planning::SpillUse::kIfNeeded;
  std::optional<Bytes> spill_limit;  // none: half of what is free
  std::string spill_directory;       // empty: the first that will do (base/spill_folder.h)
  bool profile = false;              // measures every step of the plan
  bool guarded = true;               // without a limit refuses what takes nearly all that there is
  // What a process that is somebody else's held before the first call; `memory` is the limit of
  // all that it holds, and the run's is what is left (planning/memory_model.h). Zero: the process
  // is the run's.
  Bytes given;
  // Whether what the process took before counts towards `memory` too, or only what it takes from
  // now on.
  bool whole_process = false;
  // Who shares every step with this process, and what their library has taken of it; null: nobody.
  // They outlive the run.
  Ranks* ranks = nullptr;
  Bytes exchange{};
  // What they hold in parts (ops/fuse/shards.h); none: as little as fits on all of them.
  std::optional<int> shard;
  int least_shard = 0;  // that may be taken where nobody says
  // Plan alone: made for one of so many ranks, which are not here, and how they are joined.
  int rank_count = 0;
  std::optional<planning::Network> network;

  friend bool operator==(const Settings&, const Settings&) = default;
};

// Data sets by path: one, or a path for each input or output of the model ("NAME=PATH", or paths
// alone in its order).
struct DataPaths {
  data::DatasetOptions set;  // but for paths and what the model says
  std::vector<std::string> data;
  std::vector<std::string> labels;
  std::vector<std::string> like;       // data whose categories, classes and scale hold for these
  std::string cache_limit;             // "20GiB", "50%" of what is free there
  const char* data_option = "--data";  // what errors call them
  const char* labels_option = "--labels";

  bool empty() const { return data.empty(); }
};

// Either paths, or a data set that is open already; neither: none.
struct DataRequest {
  DataPaths paths;
  std::shared_ptr<data::Dataset> opened;

  bool empty() const { return opened == nullptr && paths.empty(); }
};

struct CallbackRequest {
  std::string monitor;  // metric that decides; empty: val_loss, loss without validation
  std::optional<std::string> early_stopping;     // "5", "patience=5,min_delta=0.001"
  std::optional<std::string> reduce_on_plateau;  // "factor=0.1,patience=10"
  std::string keep_best;                         // file for the model after its best epoch
};

// Files that a run writes as it goes. One that cannot be written any more ends there, which is
// said; the run goes on.
struct LogRequest {
  std::string lines;            // JSON lines, one an epoch
  bool steps = false;           // … and one a step
  std::string csv;              // a table, one line an epoch
  std::string tensorboard;      // folder for event files
  int64_t histogram_every = 0;  // histograms of the weights in them, in epochs; 0: none
};

struct CheckpointRequest {
  std::string folder;  // empty: none are written
  std::string every;   // "epoch", "500steps", "10min"; empty: every epoch and every 10 minutes
  int keep = 3;        // checkpoints that stay
  bool resume = false;
};

struct FitRequest {
  Settings settings;
  DataRequest data;
  DataRequest validation;
  double validation_split = 0;  // the last part of the data to evaluate on instead
  std::string class_weights;    // "balanced", or "0:1,1:3.5"
  int64_t epochs = 1;
  std::optional<int64_t> steps;                              // stop after so many in all
  train::NotFinite not_finite = train::NotFinite::kRefused;  // of a step's loss
  int64_t seen_steps = 0;  // by the model before: draws of a session that is made go on from there
  std::string shuffle;     // "full", "block", "none"; empty: as the data ask for
  std::string output;      // the trained model's file; empty: it is not written
  CallbackRequest callbacks;
  LogRequest logs;
  CheckpointRequest checkpoint;
  // Planned and counted, but not run: for callers that evaluate in some epochs only.
  bool skip_validation = false;
  // Averages of weights (use_ema) take their places in the end; false: more epochs follow.
  bool ends_training = true;
  bool keep_epochs = false;  // in FitResult::history; false: the last one alone
  // Whether the run plans anew where the memory control group's limit falls or processes stand
  // still for want of memory (train/limit_watch.h), and whether SIGUSR1 asks for that too.
  bool follow_limits = false;
  bool take_signal = false;
};

struct EvaluateRequest {
  Settings settings;
  DataRequest data;
};

struct PredictRequest {
  Settings settings;
  DataRequest data;
};

}  // namespace plimsoll::run
