#pragma once

// Keras's metrics as state: a total and a count that every step adds to.
//
// "accuracy" means what Keras takes it for by the shapes of output and labels. A metric over an
// epoch is total / count; who starts an epoch sets both to zero. Values per sample with further
// dimensions count as their mean. Keras's `metrics` are unweighted, its `weighted_metrics` are
// weighted by sample weights; places that the output's mask hides do not count.

#include "graph/builder.h"
#include "layers/config/config.h"
#include "layers/training/losses.h"

namespace plimsoll::layers {

struct Metric {
  std::string name{};  // the key of logs
  std::string op{};    // (target, prediction) or, for errors, (prediction, target) → per row
  bool target_first = true;
  graph::Attributes attributes{};  // of the operator
  // Where the count is no number of rows: what confusion_count counts instead ("predicted",
  // "actual").
  std::string counted{};
  double factor = 1;  // of what is summed
  bool root = false;  // the square root of the mean
  // The name of an area under a curve (curve_area.h), empty for all other metrics; and how it is
  // summed. What is counted is a histogram.
  std::string curve{};
  std::string summation{};
  bool from_logits = false;  // predictions are brought to (0, 1) by the sigmoid first
  friend bool operator==(const Metric&, const Metric&) = default;
};

// Takes a name, or Keras's object, for an output of that type with that loss. Throws kModel:
// unknown (did-you-mean), or unfit for the loss's labels. `options` gets what it can be told.
Metric read_metric(const Config& config, const Loss& loss, const ValueType& output,
                   std::vector<Option>* options = nullptr);
std::vector<std::string> metric_class_names();
// Whether a metric of that class reads class numbers rather than numbers of the output's shape.
bool metric_is_sparse(const std::string& class_name);
std::vector<std::string> metric_names();
// "mse" → "MeanSquaredError"; the name itself where it is none of ours.
std::string metric_class(const std::string& name);

// State names: "metrics/<name>/total" and "metrics/<name>/count".
std::string metric_state(std::string_view metric, std::string_view part);

// What a message calls it: its own name, or its class.
std::string metric_title(const Config& config);
// Throws kModel where the metric cannot be weighted on such an output.
void check_weighted(const Metric& metric, const ValueType& output);

// Adds the metric's nodes and state writes, in stage kMetric. `name` is unique in the program.
// In the weights, samples are (B), or of the loss's rows up to dimensions of 1. As in Keras the
// mask is looked at by the metrics that are a mean of a function (not by Precision, Recall, AUC,
// and the root).
void add_metric(graph::GraphBuilder& builder, const Metric& metric, const std::string& name,
                graph::ValueId prediction, graph::ValueId target, const LossWeights& weights = {});
// A mean of a scalar, weighted by the batch size, as Keras tracks losses.
void add_loss_tracker(graph::GraphBuilder& builder, const std::string& name, graph::ValueId loss);

}  // namespace plimsoll::layers
