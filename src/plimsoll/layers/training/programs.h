#pragma once

// From a model and its training configuration to the programs that a run needs.
//
//   train        forward, loss, backward, updates, metrics      batch
//   train_tail   the same on the short last batch               last batch, if any
//   evaluate, evaluate_tail                                     loss and metrics only
//   predict, predict_tail                                       outputs only
//   initialize   initial weights, slots and counters as nodes
//   apply        updates by gradients that train programs added up (accumulation.h), where asked
//   for
//
// Program inputs come in one order: model inputs, targets, sample weights (ProgramInput says what
// each is). The first output of train and evaluate is the step's loss, a scalar; predict's outputs
// are the model's.

#include <optional>
#include <string>
#include <vector>

#include "graph/program.h"
#include "layers/config/config.h"
#include "layers/model/model.h"
#include "layers/model/precision.h"
#include "layers/training/index_bounds.h"
#include "layers/training/metric_result.h"

namespace plimsoll::layers {

// What compile() of Keras takes. Losses and metrics per model output (one entry serves all).
struct CompileOptions {
  Config optimizer{};  // {"class_name": "Adam", "config": {…}}
  // {"class_name": "BinaryCrossentropy", "config": {…}}; null: the output has none.
  std::vector<Config> losses{};
  std::vector<double> loss_weights{};  // factors of the losses, per output; empty: none
  std::vector<std::vector<Config>> metrics{};
  std::vector<std::vector<Config>> weighted_metrics{};  // by sample weights, where there are any
  // Metrics that cannot be computed are left out (left_out_metrics names them), not refused.
  bool skips_metrics = false;
  // Keys of Keras's record that nothing here stands for, to be written as they were read; and why
  // a step cannot be trained by such a record (empty: it can).
  Config unread{};
  std::string unread_loss{};
  bool sample_weights = false;  // programs get one more input per output
  // How one sample's weights are shaped, per output that has a loss; none: one number.
  std::vector<std::vector<int64_t>> weight_shapes{};
  // How one sample's labels are shaped, per output that has a loss; only of losses of sequences of
  // labels (losses.h), empty for the others.
  std::vector<std::vector<int64_t>> target_shapes{};
  bool accumulates = false;  // train programs add gradients up, and there is a program "apply"
  Precision precision = Precision::kOfLayers;
  // Samples whose statistics BatchNormalization takes in training; 0: the whole batch's
  // (batch_norm_groups.h).
  int64_t batch_norm_group = 0;
  friend bool operator==(const CompileOptions&, const CompileOptions&) = default;
};

// Reads the command line's spelling: `adam`, `adam(learning_rate=0.001,beta_1=0.9)`,
// `sparse_categorical_crossentropy(from_logits=true)`. Throws kConfig with a did-you-mean.
Config parse_optimizer(std::string_view text);
Config parse_loss(std::string_view text);
Config parse_metric(std::string_view text);

// Others in place of a file's: one loss for all outputs, one list of metrics for each.
void replace_losses(CompileOptions& compile, std::vector<Config> losses);
// Each must be one that can be computed.
void replace_metrics(CompileOptions& compile, std::vector<Config> metrics);

// Which programs, at which batch sizes; 0: not asked for.
struct BatchSizes {
  int64_t train = 0;
  int64_t train_tail = 0;
  int64_t evaluate = 0;
  int64_t evaluate_tail = 0;
  int64_t predict = 0;
  int64_t predict_tail = 0;
};

enum class InputRole : uint8_t { kFeatures, kTarget, kSampleWeight };

struct ProgramInput {
  InputRole role = InputRole::kFeatures;
  std::string name;  // of the model input or output
  DType dtype = DType::kFloat32;
  Shape shape;  // with the batch
  // Sparse labels: valid values are [0, class_count); 0: no bound.
  int64_t class_count = 0;
  std::vector<IndexBound> bounds{};        // of features that name rows of tables
  std::optional<int64_t> ignored_class{};  // a label that is valid beside them
  friend bool operator==(const ProgramInput&, const ProgramInput&) = default;
};

// A metric (or the loss) over an epoch: the state variables that it counts in, and what is told of
// them. Metrics of several outputs may share theirs.
struct MetricState {
  std::string name;                 // "loss", "accuracy"; the key of logs and JSON
  std::vector<std::string> states;  // names
  MetricResult result{};
  friend bool operator==(const MetricState&, const MetricState&) = default;
};

struct BuiltPrograms {
  graph::ProgramSet set;
  std::vector<ProgramInput> train_inputs;    // of train and evaluate programs
  std::vector<ProgramInput> predict_inputs;  // of predict programs
  std::vector<MetricState> metrics;          // loss first
  std::string learning_rate;                 // state name; empty without an optimizer
};

// The groups that programs of such a batch have: 0 where one would hold the batch.
int64_t batch_norm_group(const CompileOptions& compile, const BatchSizes& batches);

// Throws kModel where a stateful layer's batches are not all of the size that the model's Input
// says. Asked before anything runs; what is built to look at a model alone may have any size.
void check_stateful(const Model& model, const BatchSizes& batches);

// Throws kModel (or kConfig where loss or optimizer are missing). Random draws are told apart by
// call site; the run's seed comes with each step.
BuiltPrograms build_programs(const Model& model, const CompileOptions& compile,
                             const BatchSizes& batches);

// One sentence for each metric that programs of this model leave out: its name, and why.
std::vector<std::string> left_out_metrics(const Model& model, const CompileOptions& compile);

// What programs of this precision do otherwise than the model's layers ask for, a sentence without
// its full stop; empty: nothing.
std::string precision_note(const Model& model, Precision precision);

// The optimizer's variables in the order of Keras's `optimizer.variables`, as state names.
std::vector<std::string> optimizer_variables(const Model& model, const Config& optimizer);

}  // namespace plimsoll::layers
