#pragma once

// Losses as graph: from a model output and its target to a scalar.
//
//   prediction, target ─▶ per row (B, …) ─▶ Σ · weight ─▶ / (rows) ─▶ scalar
//
// Formulas, reductions and divisors are Keras's: `sum_over_batch_size` divides by the number of
// rows, weights or not. A cross-entropy directly behind sigmoid or softmax is computed from the
// logits. Labels (n) and (n, 1) mean the same.

#include <string>

#include "graph/builder.h"
#include "layers/config.h"

namespace plimsoll::layers {

// A model output as a loss sees it.
struct Prediction {
  std::string name;  // of the output, for messages
  graph::ValueId value;
  graph::ValueId logits;  // where the output is sigmoid or softmax of these; invalid otherwise
  bool sigmoid = false;   // which of the two
};

// What a target must be for a prediction of a type.
struct TargetType {
  graph::ValueType type;
  int64_t class_count = 0;  // labels are in [0, class_count); 0: no labels
  friend bool operator==(const TargetType&, const TargetType&) = default;
};

class Loss {
 public:
  // From a name or a serialized object. Throws kModel.
  explicit Loss(const Config& value);

  const std::string& class_name() const { return class_name_; }
  const Config& config() const { return config_; }
  bool sparse() const { return class_name_ == "SparseCategoricalCrossentropy"; }

  // Throws kModel naming the output where the loss cannot be taken of it.
  TargetType target_type(const std::string& output, const graph::ValueType& prediction) const;

  // Adds the nodes; `weights` (B) may be invalid. Returns the scalar.
  graph::ValueId add(graph::GraphBuilder& builder, const Prediction& prediction,
                     graph::ValueId target, graph::ValueId weights) const;

 private:
  graph::ValueId per_row(graph::GraphBuilder& builder, const Prediction& prediction,
                         graph::ValueId target) const;

  std::string class_name_;
  Config config_;
  bool from_logits_ = false;
  bool mean_ = true;  // sum_over_batch_size; otherwise sum
  double label_smoothing_ = 0;
};

// The per-row values of "mean_squared_error" and "mean_absolute_error", which metrics share.
graph::ValueId add_row_error(graph::GraphBuilder& builder, std::string_view op,
                             std::string_view name, graph::ValueId prediction,
                             graph::ValueId target);

}  // namespace plimsoll::layers
