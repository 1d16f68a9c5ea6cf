#pragma once

// Optimizers as graph: one update node per weight, its slots as state variables.
//
//   Optimizer o = …;  o.begin(builder);            iterations and learning rate are read
//   for each weight:  o.update(builder, w, g);     update node, writes of weight and slots
//   o.finish(builder);                             iterations + 1 is written
//
// State variables are "optimizer/iterations", "optimizer/learning_rate" and
// "optimizer/<weight>/<slot>"; slots stand in the order in which Keras lists an optimizer's
// variables. The arithmetic is Keras's, in the operators (ops/adam.cpp, …).

#include <memory>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "layers/config.h"

namespace plimsoll::layers {

class Optimizer {
 public:
  // From a name or a serialized object. Throws kModel for what is unknown or not supported
  // (schedules, clipping, averages of weights), with the way out.
  explicit Optimizer(const Config& value);

  const std::string& class_name() const { return class_name_; }
  // Keras 3's get_config, complete.
  const Config& config() const { return config_; }
  double learning_rate() const { return learning_rate_; }

  // Slots of each weight, in Keras's order.
  const std::vector<std::string>& slots() const { return slots_; }
  // Names of all variables of the optimizer in Keras's order for these trainable weights.
  std::vector<std::string> variable_names(const std::vector<std::string>& weights) const;

  // Nodes of the `initialize` program: zeros for slots and iterations, the learning rate.
  void add_initial(graph::GraphBuilder& builder,
                   const std::vector<graph::StateVariable>& weights) const;

  void begin(graph::GraphBuilder& builder);
  void update(graph::GraphBuilder& builder, graph::StateId weight, graph::ValueId gradient);
  void finish(graph::GraphBuilder& builder);

 private:
  graph::StateVariable slot(const graph::StateVariable& weight, const std::string& name) const;

  std::string class_name_;
  Config config_;
  double learning_rate_ = 0;
  std::string op_;
  graph::Attributes attributes_;
  std::vector<std::string> slots_;
  std::vector<std::string> operands_;  // the slots in the order in which the operator takes them
  std::vector<size_t> groups_;  // how many slots each of Keras's lists holds, interleaved within
  bool wants_iterations_ = false;
  graph::StateId iterations_;
  graph::ValueId iterations_value_;
  graph::ValueId learning_rate_value_;
};

inline constexpr std::string_view kIterations = "optimizer/iterations";
inline constexpr std::string_view kLearningRate = "optimizer/learning_rate";

}  // namespace plimsoll::layers
