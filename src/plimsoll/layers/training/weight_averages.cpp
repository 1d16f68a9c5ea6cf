#include "layers/training/weight_averages.h"

#include <algorithm>

#include "layers/training/optimizers.h"
#include "ops/registry.h"

namespace plimsoll::layers {
namespace {

using graph::StateVariable;
using graph::ValueId;

constexpr double kMostSteps = 1e15;

}  // namespace

std::optional<WeightAverages> read_averages(OptionReader& options) {
  const bool asked = options.flag("use_ema", false);
  WeightAverages averages;
  averages.momentum = options.number("ema_momentum", 0.99, 0, 1);
  const std::optional<double> every =
      options.optional_number("ema_overwrite_frequency", 0, kMostSteps);
  averages.overwrite_every = static_cast<int64_t>(every.value_or(0));
  if (!asked) return std::nullopt;
  return averages;
}

AveragedWeight add_average(graph::GraphBuilder& builder, const WeightAverages& averages,
                           const std::string& weight, ValueId value, ValueId average,
                           ValueId iteration) {
  const graph::NodeId node =
      builder.add("weight_average", weight + "/averaged", {value, average, iteration},
                  {{"momentum", averages.momentum}, {"overwrite_every", averages.overwrite_every}});
  const std::vector<ValueId> outputs = builder.graph().node(node).outputs;
  return {outputs[0], outputs[1]};
}

std::optional<graph::Graph> averages_graph(const std::vector<StateVariable>& states) {
  graph::GraphBuilder builder(ops::registry());
  builder.set_stage(graph::Stage::kUpdate);
  bool any = false;
  for (const StateVariable& weight : states) {
    const auto slot =
        std::ranges::find(states, slot_state(weight.name, kAverageSlot), &StateVariable::name);
    if (slot == states.end()) continue;
    any = true;
    builder.set_layer(weight.layer);
    const ValueId value = builder.read(builder.state(*slot));
    builder.write(builder.state(weight), builder.call("scale_shift", slot->name + "/taken", {value},
                                                      {{"scale", 1.0}, {"offset", 0.0}}));
  }
  builder.set_layer("");
  if (!any) return std::nullopt;
  return builder.finish();
}

}  // namespace plimsoll::layers
