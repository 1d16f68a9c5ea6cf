#include "layers/training/accumulation.h"

#include <algorithm>

#include "layers/model/expansion.h"
#include "ops/registry.h"

namespace plimsoll::layers {
namespace {

using graph::StateId;
using graph::StateRole;

ValueId read_scalar(graph::GraphBuilder& builder, std::string_view name) {
  return builder.read(builder.state({.name = std::string(name),
                                     .type = {DType::kFloat32, Shape()},
                                     .role = StateRole::kHyperparameter}));
}

StateId declare_sum(graph::GraphBuilder& builder, const graph::StateVariable& weight) {
  return builder.state({.name = gradient_state(weight.name),
                        .type = weight.type,
                        .role = StateRole::kOptimizerSlot,
                        .layer = weight.layer});
}

}  // namespace

std::string gradient_state(std::string_view weight) {
  return "accumulation/" + std::string(weight);
}

void add_accumulation(graph::GraphBuilder& builder, const std::vector<WeightGradient>& gradients) {
  builder.set_stage(graph::Stage::kUpdate);
  const ValueId share = read_scalar(builder, kShareState);
  for (const WeightGradient& pair : gradients) {
    const graph::StateVariable weight = builder.graph().state(pair.weight);
    const StateId sum = declare_sum(builder, weight);
    const std::string name = gradient_state(weight.name);
    builder.set_layer(weight.layer);
    const ValueId part = builder.call("multiply", name + "/part", {pair.gradient, share});
    builder.write(sum, builder.call("add", name + "/next", {builder.read(sum), part}));
    builder.set_layer("");
  }
}

graph::Graph apply_graph(const Model& model, const Optimizer& optimizer,
                         const std::vector<graph::StateVariable>& states) {
  graph::GraphBuilder builder(ops::registry());
  builder.set_stage(graph::Stage::kUpdate);
  const ValueId factor = read_scalar(builder, kFactorState);
  std::vector<WeightGradient> updates;
  std::vector<graph::StateVariable> idle;
  for (const ModelWeight& weight : model.all_weights()) {
    const std::string name = gradient_state(weight.name);
    const Layer& layer = model.layer(weight.layer);
    const graph::StateVariable variable = state_variable(layer, weight.weight);
    if (std::ranges::find(states, name, &graph::StateVariable::name) == states.end()) {
      if (weight.trainable) idle.push_back(variable);
      continue;
    }
    builder.set_layer(layer.name());
    const StateId sum = declare_sum(builder, variable);
    const ValueId mean = builder.call("multiply", name + "/mean", {builder.read(sum), factor});
    builder.write(sum, builder.call("zeros", name + "/none", {},
                                    {{"shape", variable.type.shape.at(1)},
                                     {"dtype", std::string(to_string(variable.type.dtype))}}));
    updates.push_back({builder.state(variable), mean, weight.weight.constraint});
    builder.set_layer("");
  }
  add_updates(builder, optimizer, updates);
  for (const graph::StateVariable& weight : idle) add_idle_slots(builder, optimizer, weight);
  return builder.finish();
}

}  // namespace plimsoll::layers
