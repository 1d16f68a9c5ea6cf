#pragma once

// Keras's optimizers as nodes: one update per weight, right after its gradient.
//
// State: "optimizer/learning_rate" (a float32 the host may write between steps; none with a
// schedule, which computes the rate from the counter), "optimizer/iteration" (an int64 counter),
// and slots "optimizer/<weight>/<slot>" with Keras's slot names. Arithmetic is in the operators.

#include <optional>

#include "base/tensor_io.h"
#include "graph/builder.h"
#include "layers/config/config.h"
#include "layers/training/loss_scale.h"
#include "layers/training/muon.h"
#include "layers/training/weight_averages.h"

namespace plimsoll::layers {

inline constexpr std::string_view kLearningRateState = "optimizer/learning_rate";
// Nadam's product of its momenta so far, which Keras keeps among the optimizer's variables.
inline constexpr std::string_view kMomentumProductState = "optimizer/u_product";
inline constexpr std::string_view kIterationState = "optimizer/iteration";

struct Option;

struct Optimizer {
  std::string class_name{};  // "SGD", "Adam", …; of the one inside of one that scales losses
  double learning_rate = 0;
  std::string op{};                  // of an update
  graph::Attributes attributes{};    // of an update
  std::vector<std::string> slots{};  // per weight, in the operator's order
  bool counts = false;               // whether updates read the counter
  double accumulator = 0;            // where the slot "accumulator" starts; others start at 0
  bool starts_at_weight = false;     // whether the slot "momentum" starts as the weight
  std::optional<Muon> muon{};        // matrices that it takes; the others get what stands above
  // Attributes of a scheduled_rate node; none: the rate is a state.
  std::optional<graph::Attributes> schedule{};
  // "value", "norm" or "global": gradients are clipped to clip_limit; empty: they are not.
  std::string clip{};
  double clip_limit = 0;
  std::optional<LossScale> loss_scale{};     // of one that scales losses, around this one
  std::optional<WeightAverages> averages{};  // use_ema: the last slot of each weight
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

// Takes a name, or Keras's object. Throws kModel: unknown (did-you-mean), or asked for something
// that is not done (sums of gradients over several steps). `options` gets what it can be told.
Optimizer read_optimizer(const Config& config, std::vector<Option>* options = nullptr);

// Keras's defaults for a class; names as in Keras's get_config.
std::string slot_state(std::string_view weight, std::string_view slot);

// The slots of a weight of that name and shape: each one's name and shape.
std::vector<TensorInfo> slots_of(const Optimizer& optimizer, const TensorInfo& weight);

// Where a slot of that state name starts.
double initial_slot_value(const Optimizer& optimizer, std::string_view state);
std::vector<std::string> optimizer_class_names();

// Adds updates of `weights` (state variables of the builder's graph, with their gradients) and the
// counter's increment, in stage kUpdate.
struct WeightGradient {
  graph::StateId weight;
  graph::ValueId gradient;
  Config constraint{};      // what follows the update; null: nothing
  graph::ValueId before{};  // what is updated; invalid: what the variable holds
};
void add_updates(graph::GraphBuilder& builder, const Optimizer& optimizer,
                 const std::vector<WeightGradient>& gradients);
// Keeps the slots of a trainable weight that the loss does not depend on: Keras leaves weight and
// slots as they are, and has the slots among its variables.
void add_idle_slots(graph::GraphBuilder& builder, const Optimizer& optimizer,
                    const graph::StateVariable& weight);

// The program "slots": what starts as the weight does, for weights that came without slots. None
// where nothing does.
std::optional<graph::Graph> slots_graph(const Optimizer& optimizer,
                                        const std::vector<graph::StateVariable>& states);

// The optimizer's variables in the order of Keras's `optimizer.variables`, by their states' names;
// `weights` are the trainable ones.
std::vector<TensorInfo> optimizer_states(const Optimizer& optimizer,
                                         const std::vector<TensorInfo>& weights);

}  // namespace plimsoll::layers
