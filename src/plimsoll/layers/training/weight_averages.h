#pragma once

// Keras's use_ema: a moving average of each weight, among the optimizer's slots.
//
// It follows the weight after each update and before any constraint; at the first step it is the
// weight. Every so many steps it takes the weight's place, and once more when a fit ends, which is
// the program "averages".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "layers/config/option_reader.h"

namespace plimsoll::layers {

inline constexpr std::string_view kAverageSlot = "average";

struct WeightAverages {
  double momentum = 0.99;
  int64_t overwrite_every = 0;  // steps; 0: never
  friend bool operator==(const WeightAverages&, const WeightAverages&) = default;
};

// Reads use_ema, ema_momentum and ema_overwrite_frequency; none where the first is false.
std::optional<WeightAverages> read_averages(OptionReader& options);

// A weight and its average after a step.
struct AveragedWeight {
  graph::ValueId weight;
  graph::ValueId average;
};
// `value` is the weight after its update, `average` what the slot held, `iteration` the number of
// steps before this one.
AveragedWeight add_average(graph::GraphBuilder& builder, const WeightAverages& averages,
                           const std::string& weight, graph::ValueId value, graph::ValueId average,
                           graph::ValueId iteration);

// The program "averages": each weight takes the value of its slot. `states` are those of the
// training programs; none where no weight has such a slot.
std::optional<graph::Graph> averages_graph(const std::vector<graph::StateVariable>& states);

}  // namespace plimsoll::layers
