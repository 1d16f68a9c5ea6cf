#pragma once

// Keras's metrics as state that every step adds to: a total and a count, or a histogram, sums by
// class, pairs of classes. What is told of it follows once, at the end (metric_result.h).
//
// "accuracy" means what Keras takes it for by the shapes of output and labels. Who starts an epoch
// sets the state to zero. Values per sample with further dimensions count as their mean. Keras's
// `metrics` are unweighted, its `weighted_metrics` are weighted by sample weights; places that the
// output's mask hides do not count.
//
// Reading a metric is metric_options.cpp, building its nodes metric_nodes.cpp.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/config/config.h"
#include "layers/training/losses.h"
#include "layers/training/metric_result.h"

namespace plimsoll::layers {

// The key under which files of Keras number objects that stand in several places.
inline constexpr std::string_view kSharedObject = "shared_object_id";

// What is counted.
enum class MetricKind : uint8_t {
  kRows,       // the mean of an operator's values per row
  kLoss,       // the mean of a loss's values per row
  kHistogram,  // predictions by threshold
  kColumns,    // sums by class or output
  kPairs,      // which class is taken for which
};

struct Metric {
  std::string name{};  // the key of logs
  MetricKind kind = MetricKind::kRows;
  std::string op{};  // (target, prediction) or, for errors, (prediction, target) → per row
  bool target_first = true;
  bool masks = true;               // whether it looks at the output's mask
  graph::Attributes attributes{};  // of the operator
  double factor = 1;               // of what is summed
  std::optional<Loss> loss{};
  bool from_logits = false;         // predictions are brought to (0, 1) by the sigmoid first
  std::optional<int64_t> top_k{};   // of the predictions of a row that count
  std::optional<int64_t> column{};  // the only one that counts
  bool counts_values = false;       // beside the sums
  MetricResult result{};
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

// Names of the states that a metric counts in; the rule of its result takes them in this order.
std::vector<std::string> metric_parts(const Metric& metric);
// State names: "metrics/<name>/<part>".
std::string metric_state(std::string_view metric, std::string_view part);

// What a message calls it: its own name, or its class.
std::string metric_title(const Config& config);
// Throws kModel where the metric cannot be weighted on such an output.
void check_weighted(const Metric& metric, const ValueType& output);

// One output that a metric counts.
struct MetricSource {
  ValueId prediction{};
  ValueId target{};
  LossWeights weights{};
};

// Adds the metric's nodes and state writes, in stage kMetric. `name` is unique in the program.
// In the weights, samples are (B), or of the loss's rows up to dimensions of 1. Several outputs
// that share a metric are counted one after the other; throws kModel where their counts differ in
// shape. As in Keras the mask is looked at by the metrics that are a mean of a function.
void add_metric(Expansion& expansion, const Metric& metric, const std::string& name,
                std::span<const MetricSource> sources);
// A mean of a scalar. Keras weighs the loss by the sizes of batches, and those of single outputs
// not: in a traced step it does not know the size.
enum class LossMean : uint8_t { kOfSamples, kOfBatches };
void add_loss_tracker(graph::GraphBuilder& builder, const std::string& name, graph::ValueId loss,
                      LossMean mean);

}  // namespace plimsoll::layers
