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

// How a model is run; what plan, evaluate and predict take.
struct RunOptions {
  int64_t batch = 32;
  std::optional<Bytes> memory{};  // none: the fastest plan, below 80 % of what may be used
  int threads = 0;                // 0: what the process may use
  uint64_t seed = 0;              // of initial weights
  std::string backend{};          // "onednn", "cpu", "reference", "null"; empty: the default
  std::string times{};            // as in FitOptions
  bool tune = false;
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
  bool shuffle = true;
  uint64_t seed = 0;  // of initial weights, dropout and the order of samples
  int threads = 0;    // 0: what the process may use
  std::string backend{};
  // Plans are chosen by times that were measured on this machine: the folder of such files; "none":
  // by a model of processors; empty: the user's cache folder. They never change a result.
  std::string times{};
  bool tune = false;      // measures first, within the limit, and keeps that there
  bool progress = false;  // a line on standard error
  // A folder for checkpoints of the run; how often ("500steps", "10min", …; empty: every epoch and
  // every 10 minutes); how many stay; whether to go on from the newest of them.
  std::string checkpoint{};
  std::string checkpoint_every{};
  int checkpoint_keep = 3;
  bool resume = false;
  std::function<void(const std::string&)> on_notice{};  // of checkpoints: a sentence or more
  std::function<void(int64_t step, double loss)> on_step{};
  std::function<void(const EpochReport&)> on_epoch{};
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

  bool fits() const { return answer == Answer::kFits; }
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

  // What a training step of this batch size would take. Needs compile (kConfig).
  PlanAnswer plan(const RunOptions& options = {}) const;

  // Trains, going on from the weights that the model has. Needs compile (kConfig). Throws kBudget
  // (does not fit), kData, kIo; the weights of an ended fit are kept in all cases but kBudget,
  // where nothing has changed.
  History fit(const Dataset& dataset, const FitOptions& options = {});
  // Loss and metrics over all samples. Needs compile.
  MetricValues evaluate(const Dataset& dataset, const RunOptions& options = {});
  // One entry per output, in memory (which counts against the limit); or written as they come, to
  // an .npy file, for a model of one output.
  std::vector<Predictions> predict(const Dataset& dataset, const RunOptions& options = {});
  void predict_to(const std::string& npy_path, const Dataset& dataset,
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
  friend Model load_model(const std::string& path);
  friend class Trainer;
  std::unique_ptr<Impl> impl_;
};

// Layers one behind the other; the first is an Input.
class Sequential : public Model {
 public:
  explicit Sequential(const std::vector<Layer>& layers, const std::string& name = "sequential");
};

// A .keras file or Keras JSON; weights, training configuration and the optimizer's state are taken
// over. Throws kModel with the layer and reason where it cannot be trained, kIo.
Model load_model(const std::string& path);

}  // namespace plimsoll
