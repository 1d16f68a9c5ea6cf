#pragma once

// Gradients that are added up over several calls and applied by a call of their own.
//
//   train, train_tail   accumulation/<weight> += gradient · accumulation/share
//   apply               update by accumulation/<weight> · accumulation/factor; the sums start anew
//
// The host writes share and factor before it runs a program, so that one pair of programs serves
// means over samples, plain sums, and weights of single calls. What it does not do: the sum over
// calls is another left fold than that over one large batch, so the two agree within rounding, not
// bit for bit.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "layers/model/model.h"
#include "layers/training/optimizers.h"

namespace plimsoll::layers {

inline constexpr std::string_view kShareState = "accumulation/share";
inline constexpr std::string_view kFactorState = "accumulation/factor";

// "accumulation/<weight>": the state variable that a weight's gradients are added up in.
std::string gradient_state(std::string_view weight);

// Adds the sums to a training program, in stage kUpdate.
void add_accumulation(graph::GraphBuilder& builder, const std::vector<WeightGradient>& gradients);

// Updates those weights of the model whose gradients `states` has sums of.
graph::Graph apply_graph(const Model& model, const Optimizer& optimizer,
                         const std::vector<graph::StateVariable>& states);

}  // namespace plimsoll::layers
