#pragma once

// Where a program's state variables lie, by variable and by value.
//
// Placements name variables of all programs together; here they are found once for a graph, and
// not by a search for each use. Pointers go into the placements, which outlive them.

#include <span>
#include <vector>

#include "graph/ir.h"
#include "plan/core/plan.h"

namespace plimsoll::plan {

// Per state variable of the graph; null: it has no place.
std::vector<const StatePlacement*> find_places(const graph::Graph& graph,
                                               std::span<const StatePlacement> states);

// Per value: the variable that it is written to, the first where there are several; invalid: none.
std::vector<graph::StateId> find_written(const graph::Graph& graph);

}  // namespace plimsoll::plan
