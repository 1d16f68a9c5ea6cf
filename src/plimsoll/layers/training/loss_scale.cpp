#include "layers/training/loss_scale.h"

#include <string>

#include "base/error.h"
#include "layers/config/spelling.h"

namespace plimsoll::layers {
namespace {

using graph::StateId;
using graph::StateRole;
using graph::ValueId;

constexpr double kLargest = 1e30;

std::string state_name(std::string_view name) {
  return std::string(kLossScaleStates) + std::string(name);
}

StateId declare(graph::GraphBuilder& builder, const TensorInfo& info) {
  const bool counts = info.dtype == DType::kInt64;
  return builder.state({.name = info.name,
                        .type = {info.dtype, Shape()},
                        .role = counts ? StateRole::kCounter : StateRole::kOptimizerSlot});
}

}  // namespace

bool is_loss_scale(std::string_view class_name) {
  return class_name == kLossScaleClass || class_name == "loss_scale_optimizer";
}

LossScale read_loss_scale(OptionReader& options) {
  LossScale scale;
  scale.initial = options.number("initial_scale", scale.initial, 1e-30, kLargest);
  const double steps = options.number("dynamic_growth_steps", 2000, 1, 1e15);
  scale.growth_steps = static_cast<int64_t>(steps);
  if (!options.flag("dynamic", true)) {  // of Keras 2
    options.refuse("dynamic", "true", false, "Keras 3 has dynamic scales only: save it there.");
  }
  return scale;
}

const Config& inner_optimizer(const Config::Object& arguments) {
  for (const auto& [key, value] : arguments) {
    if (key == "inner_optimizer" && !value.is_null()) return value;
  }
  throw Error(ErrorKind::kModel,
              "loss_scale_optimizer, inner_optimizer: expected an optimizer, received none. Name "
              "the optimizer by itself, such as adam: training is in float32.");
}

Config with_loss_scale(const Config& optimizer) {
  const LossScale scale;
  return make_object(kLossScaleClass, {{"name", "loss_scale_optimizer"},
                                       {"inner_optimizer", optimizer},
                                       {"initial_scale", scale.initial},
                                       {"dynamic_growth_steps", scale.growth_steps}});
}

std::vector<TensorInfo> loss_scale_states() {
  return {{state_name("iteration"), DType::kInt64, {}},
          {state_name("learning_rate"), DType::kFloat32, {}},
          {state_name("step_counter"), DType::kInt64, {}},
          {state_name("dynamic_scale"), DType::kFloat32, {}}};
}

FiniteSteps::FiniteSteps(graph::GraphBuilder& builder, const std::optional<LossScale>& scale,
                         ValueId squares)
    : builder_(builder) {
  if (!scale) return;
  squares_ = squares;
  std::vector<StateId> states;
  for (const TensorInfo& info : loss_scale_states()) states.push_back(declare(builder, info));
  for (size_t i = 0; i < kLossScaleIdleStates; ++i) {
    const ValueId same = builder.read(states[i]);
    write(states[i], same, same);
  }
  const graph::NodeId next =
      builder.add("next_loss_scale", state_name("next"),
                  {builder.read(states[2]), builder.read(states[3]), squares_},
                  {{"growth_steps", scale->growth_steps}});
  const std::vector<ValueId> outputs = builder.graph().node(next).outputs;
  builder.write(states[2], outputs[0]);
  builder.write(states[3], outputs[1]);
}

void FiniteSteps::write(StateId state, ValueId next, ValueId before) {
  if (squares_.valid()) {
    const std::string name = builder_.graph().state(state).name;
    next = builder_.call("if_finite", name + "/if_finite", {next, before, squares_});
  }
  builder_.write(state, next);
}

}  // namespace plimsoll::layers
