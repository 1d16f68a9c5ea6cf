#pragma once

// Metrics as graph: a mean over an epoch, kept as two state variables, total and count.
//
// "accuracy" is what Keras makes of it: binary for one output, sparse categorical for labels that
// lack the last dimension, categorical otherwise. Metrics are not weighted (Keras's `metrics`).

#include <string>

#include "graph/builder.h"
#include "layers/config.h"
#include "layers/loss.h"
#include "layers/programs.h"

namespace plimsoll::layers {

class Metric {
 public:
  // From a name or a serialized object. Throws kModel.
  explicit Metric(const Config& value);

  // What logs call it: as it was written, or the object's own name.
  const std::string& name() const { return name_; }

  // Adds the nodes that bring total and count up to date; `name` is unique among the metrics.
  MetricState add(graph::GraphBuilder& builder, const std::string& name,
                  const Prediction& prediction, graph::ValueId target) const;

 private:
  std::string class_name_;
  std::string name_;
  double threshold_ = 0.5;
};

// The loss as a metric: the step's loss, weighted by the batch size.
MetricState add_loss_tracker(graph::GraphBuilder& builder, const std::string& name,
                             graph::ValueId loss);
// The state variables of a metric, zero; nodes of the `initialize` program.
void add_initial_metric(graph::GraphBuilder& builder, const MetricState& metric);

}  // namespace plimsoll::layers
