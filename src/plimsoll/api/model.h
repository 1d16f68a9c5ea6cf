#pragma once

// Models that are planned before they run: what fit takes of memory is known, named and held.
//
//   pl::Sequential model({pl::Input({28, 28, 1}), pl::Flatten(), pl::Dense(10, pl::softmax)});
//   model.compile(pl::Adam(), pl::SparseCategoricalCrossentropy(), {pl::Accuracy()});
//   pl::History h = model.fit(pl::Dataset::from_npy("x.npy", "y.npy"),
//                             {.batch = 128, .epochs = 3, .memory = 256_MiB});
//   model.save("trained.keras");
//
// A limit is that of the whole process. plan() answers with a value; fit, evaluate and predict
// throw an Error of kind kBudget, before anything is touched, where the limit cannot be met.
// Results do not depend on the limit. Between runs a model keeps its weights and the optimizer's
// state: in the arena of its last fit, which is used again when the next fit is alike, or in a
// nameless temporary file. One thread at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/dataset.h"
#include "api/layers.h"
#include "api/training.h"
#include "base/bytes.h"

namespace plimsoll {

// Whether values may wait in a file: only where nothing fits without it, never, or wherever that is
// faster.
enum class Spill { kIfNeeded, kNever, kAlways };

// How a model is run; what plan, evaluate and predict take.
struct RunOptions {
  int64_t batch = 32;
  std::optional<Bytes> memory{};  // none: the fastest plan, below 80 % of what may be used
  int threads = 0;                // 0: what the process may use
  uint64_t seed = 0;              // of initial weights
  std::string backend{};          // "onednn", "reference", "null"; empty: the default
  std::string times{};            // as in FitOptions
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
};

// By name, in Keras's order; the loss first.
using MetricValues = std::vector<std::pair<std::string, double>>;

struct EpochReport {
  int64_t epoch = 0;       // from 1
  MetricValues metrics{};  // those of validation behind, with "val_"
  double seconds = 0;
};

struct FitOptions {
  int64_t batch = 32;
  int64_t epochs = 1;
  std::optional<int64_t> steps{};  // stop after so many in all
  std::optional<Bytes> memory{};   // none: the fastest plan, below 80 % of what may be used
  const Dataset* validation = nullptr;
  double validation_split = 0;  // the last part of the data to evaluate on instead
  std::string class_weights{};  // "balanced", or "0:1,1:3.5"
  // "full", "block" (local reads) or "none"; empty: block beyond 1 GiB of data, else full.
  std::string shuffle{};
  uint64_t seed = 0;  // of initial weights, dropout and the order of samples
  int threads = 0;    // 0: what the process may use
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
  std::function<void(const std::string&)> on_notice{};  // a sentence or more for the user
  std::function<void(int64_t step, double loss)> on_step{};
  std::function<void(const EpochReport&)> on_epoch{};
  // Before the first step, with what `plimsoll plan` prints of the plan.
  std::function<void(const std::string& plan)> on_plan{};
};

// What was planned, and what the kernel says that was taken.
struct MemoryUse {
  Bytes planned_arena{};
  Bytes measured_arena{};
  Bytes predicted_process{};
  Bytes measured_process{};  // the highest so far, of everything that this process did
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

// An answer of plan(). Sizes are of the whole process unless the name says arena.
struct PlanAnswer {
  enum class Answer { kFits, kImpossible, kNotFound };
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

// What is taken in place of what a model's file says.
struct LoadOptions {
  std::string weights{};  // a file whose weights are loaded: .weights.h5, .h5, .keras
  std::vector<std::vector<int64_t>> input_shapes{};  // sizes that it leaves open, without the batch
};

// One output's values for every sample.
struct Predictions {
  std::vector<int64_t> shape{};  // the sample first
  std::vector<float> values{};
};

class Model {
 public:
  // From inputs to outputs; what lies between is found. Throws kModel naming the layer.
  Model(const Tensor& input, const Tensor& output, const std::string& name = "functional");
  Model(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
        const std::string& name = "functional");
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  // Says what training means. One loss serves all outputs, or one each; metrics likewise. The
  // optimizer's state starts anew. Throws kModel where they do not fit the outputs.
  void compile(const Optimizer& optimizer, const Loss& loss,
               const std::vector<Metric>& metrics = {});
  void compile(const Optimizer& optimizer, const std::vector<Loss>& losses,
               const std::vector<std::vector<Metric>>& metrics = {});

  // Over which samples BatchNormalization takes its statistics in training: "full", the whole
  // batch, or "slice:8", groups of 8 samples (the last one is the rest), as Keras does when it
  // accumulates gradients over 8 samples at a time. Part of the model: save keeps it, and so does
  // another compile. Needs compile. Throws kConfig.
  void set_batch_norm(const std::string& statistics);
  std::string batch_norm() const;  // "full" where the model is not compiled

  // What a training step of this batch size would take; with data also the short last batch,
  // validation and what the data sources hold. Needs compile (kConfig).
  PlanAnswer plan(const RunOptions& options = {}) const;
  PlanAnswer plan(const Dataset& dataset, const Dataset* validation,
                  const RunOptions& options = {}) const;

  // Trains, going on from the weights that the model has. Needs compile (kConfig). Throws kBudget
  // (does not fit), kData, kIo; the weights of an ended fit are kept in all cases but kBudget,
  // where nothing has changed.
  History fit(const Dataset& dataset, const FitOptions& options = {});
  // Ends the fit that runs, or else the next one, after the current step; its checkpoint is
  // written. From any thread and from a signal handler.
  void request_stop();
  // Takes the fit that runs to a plan within another limit after the current step, with the same
  // bits. Where none is found, it goes on as before, and a notice says so. From any thread.
  void change_limit(Bytes limit);
  // Loss and metrics over all samples. Needs compile.
  MetricValues evaluate(const Dataset& dataset, const RunOptions& options = {});
  // One entry per output, in memory (which counts against the limit); or written as they come, to
  // .npy, .csv or .jsonl, for several outputs to p-left.npy and p-right.npy: returns the paths.
  std::vector<Predictions> predict(const Dataset& dataset, const RunOptions& options = {});
  std::vector<std::string> predict_to(const std::string& path, const Dataset& dataset,
                                      const RunOptions& options = {});

  // `.keras`, with weights and the state of training, or `.json`, the structure alone. The file
  // appears whole or not at all. Throws kConfig for other endings, kIo.
  void save(const std::string& path);

  const std::string& name() const;
  int64_t parameter_count() const;
  // A table of layers: shapes, parameters, bytes of one sample's output.
  std::string summary() const;
  // Freezes or frees a layer by name. Throws kModel with a did-you-mean.
  void set_trainable(const std::string& layer, bool trainable);

  // "conv2d/kernel", "conv2d/bias", … and their values, row-major. weight throws kConfig with a
  // did-you-mean; set_weight also where the number of values is another.
  std::vector<std::string> weight_names() const;
  std::vector<float> weight(const std::string& name);
  void set_weight(const std::string& name, const std::vector<float>& values);

 protected:
  class Impl;
  explicit Model(std::unique_ptr<Impl> impl);

 private:
  friend Model load_model(const std::string& path, const LoadOptions& options);
  friend class Trainer;
  std::unique_ptr<Impl> impl_;
};

// Layers one behind the other; the first is an Input.
class Sequential : public Model {
 public:
  explicit Sequential(const std::vector<Layer>& layers, const std::string& name = "sequential");
};

// A .keras file, an .h5 or Keras JSON; weights, training configuration and the optimizer's state
// are taken over. Throws kModel with the layer and reason where it cannot be trained, kIo.
Model load_model(const std::string& path, const LoadOptions& options = {});

}  // namespace plimsoll
