#include "layers/training/initialize_program.h"

#include "base/error.h"
#include "layers/config/initializers.h"
#include "layers/model/expansion.h"
#include "ops/literal.h"
#include "ops/registry.h"

namespace plimsoll::layers {
namespace {

ValueId first_value(graph::GraphBuilder& builder, const graph::StateVariable& state,
                    const std::optional<Optimizer>& optimizer, const Constants& constants) {
  std::vector<int64_t> dims = state.type.shape.at(1);
  if (const auto constant = constants.find(state.name); constant != constants.end()) {
    if (!constant->second.initializer.is_null()) {
      return add_initializer(builder, constant->second.initializer, dims, state.name);
    }
    return builder.call("literal", state.name + "/initial", {},
                        {{"shape", dims},
                         {"dtype", std::string(to_string(state.type.dtype))},
                         {"data", ops::literal_text(state.type.dtype, constant->second.values)}});
  }
  if (state.name == kLearningRateState) {
    return builder.call("constant", state.name + "/initial", {},
                        {{"shape", dims}, {"value", optimizer->learning_rate}});
  }
  if (state.role == graph::StateRole::kOptimizerSlot && optimizer) {
    if (const double value = initial_slot_value(*optimizer, state.name); value != 0) {
      return builder.call("constant", state.name + "/initial", {},
                          {{"shape", dims}, {"value", value}});
    }
  }
  return builder.call("zeros", state.name + "/initial", {},
                      {{"shape", dims}, {"dtype", std::string(to_string(state.type.dtype))}});
}

}  // namespace

graph::Graph initialize_graph(const Model& model, const std::optional<Optimizer>& optimizer,
                              const Constants& constants,
                              const std::vector<graph::StateVariable>& states) {
  graph::GraphBuilder builder(ops::registry());
  builder.set_stage(graph::Stage::kUpdate);
  for (const ModelWeight& weight : model.all_weights()) {
    const Layer& layer = model.layer(weight.layer);
    builder.set_layer(layer.name());
    const graph::StateId state = builder.state(state_variable(layer, weight.weight));
    builder.write(state, add_initializer(builder, weight.weight.initializer, weight.weight.shape,
                                         weight.name));
  }
  builder.set_layer("");
  for (const graph::StateVariable& variable : states) {
    if (find_state(builder.graph(), variable.name).valid()) continue;
    const graph::StateId state = builder.state(variable);
    builder.write(state, first_value(builder, variable, optimizer, constants));
  }
  return builder.finish();
}

}  // namespace plimsoll::layers
