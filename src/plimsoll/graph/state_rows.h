#pragma once

// The rows of a state variable as an axis.
//
// Dimension 0 of a variable, in what updates and writes it: such nodes may be called for some rows
// at a time where a variable is brought in piece by piece. It is no axis of the variable's readers.

#include <string_view>
#include <vector>

#include "graph/op.h"

namespace plimsoll::graph {

inline constexpr std::string_view kStateRowsAxis = "state_rows";

// One map axis kStateRowsAxis over dimension 0 of those operands that are of type `variable`; empty
// where that is a scalar or of the batch.
std::vector<Axis> state_rows_axis(const NodeTypes& node, const ValueType& variable);

}  // namespace plimsoll::graph
