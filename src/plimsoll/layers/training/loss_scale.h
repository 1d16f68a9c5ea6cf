#pragma once

// Keras's LossScaleOptimizer around another optimizer.
//
// Gradients are float32 here, so nothing is lost that a scale would save: losses are not scaled.
// What else Keras does is done: a step whose gradients are not all finite changes neither weights
// nor slots nor the counter, and the scale goes on as Keras's would, halved by such a step and
// doubled by dynamic_growth_steps finite ones, for who goes on in Keras. It ends at 2^24: no scaled
// gradient overflows here, so nothing else would end its growth. Whether all are finite is asked of
// the sum of their squares; in float16 a gradient overflows long before that does.

#include <optional>
#include <string_view>
#include <vector>

#include "base/tensor_io.h"
#include "graph/builder.h"
#include "layers/config/config.h"
#include "layers/config/option_reader.h"

namespace plimsoll::layers {

inline constexpr std::string_view kLossScaleClass = "LossScaleOptimizer";
// Before the names of its own variables among the optimizer's.
inline constexpr std::string_view kLossScaleStates = "optimizer/loss_scale/";
// Those that exist before the first step, as any optimizer's: a counter and a rate, which Keras
// never uses.
inline constexpr size_t kLossScaleIdleStates = 2;

struct LossScale {
  double initial = 32768;
  int64_t growth_steps = 2000;
  friend bool operator==(const LossScale&, const LossScale&) = default;
};

bool is_loss_scale(std::string_view class_name);

// Reads what LossScaleOptimizer is made with but the optimizer inside.
LossScale read_loss_scale(OptionReader& options);

// The optimizer inside of one that scales losses. Throws kModel where there is none.
const Config& inner_optimizer(const Config::Object& arguments);

// {"class_name": "LossScaleOptimizer", …} with Keras's defaults around an optimizer.
Config with_loss_scale(const Config& optimizer);

// Its variables in Keras's order, which stand before those of the optimizer inside.
std::vector<TensorInfo> loss_scale_states();

// Writes of a step that Keras takes only where all gradients are finite.
class FiniteSteps {
 public:
  // Without a scale every step is taken. Adds what the scale itself becomes; `squares` is the sum
  // of all gradients' squares.
  FiniteSteps(graph::GraphBuilder& builder, const std::optional<LossScale>& scale,
              graph::ValueId squares);
  // `state` becomes `next`, or what it was `before`.
  void write(graph::StateId state, graph::ValueId next, graph::ValueId before);

 private:
  graph::GraphBuilder& builder_;
  graph::ValueId squares_;  // invalid: every step is taken
};

}  // namespace plimsoll::layers
