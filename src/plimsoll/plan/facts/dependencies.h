#pragma once

// What must come before what, and which nodes loops over an axis may hold.
//
// Besides the flow of values there are the states: every reader of a variable's incoming value
// comes before the node that writes it, and, where that closes no circle, before the node whose
// result may take the variable's memory over.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/facts/program_facts.h"

namespace plimsoll::plan {

// How a node stands to loops over an axis.
struct AxisRole {
  int axis = -1;        // its own of that name; −1: none
  bool sliced = false;  // may stand in such a loop
  int64_t extent = 0;   // of the axis: loops around it have so many rows in all
  // Slices around it are multiples of this, or lanes: its block, 1 where rows may be called in any
  // number.
  int64_t unit = 1;
  friend bool operator==(const AxisRole&, const AxisRole&) = default;
};

struct Dependencies {
  LoopAxis axis = graph::kBatchAxis;               // that loops go over
  int64_t lane = 0;                                // rows of it in one lane; 0: not cut there
  std::vector<AxisRole> roles;                     // per node
  std::vector<std::vector<graph::NodeId>> before;  // per node, by rising number
  std::vector<std::vector<graph::NodeId>> after;   // the same the other way round
  std::vector<graph::NodeId> order;                // one order that holds all of them
  std::vector<graph::ValueId> updates;  // per state variable: the value that may take its memory
  // Per value: whether its producer may be computed again. It makes rows from rows, or stands
  // outside of every loop; it writes no state. Inputs may be fed again.
  std::vector<bool> repeatable;
};

Dependencies find_dependencies(const ProgramFacts& facts, const LoopAxis& axis = graph::kBatchAxis);

// Whether rows of the value are made slice by slice when its producer stands in a loop. Inputs that
// have samples are in loops over them; in front of all others they are fed whole.
bool is_carried(const ProgramFacts& facts, const Dependencies& dependencies, graph::ValueId value);

// Whether the rows of its operand that `reader` needs in an iteration of a loop are those that an
// iteration makes: not where it is a window or the extents differ.
bool shares_iterations(const ProgramFacts& facts, const Dependencies& dependencies,
                       graph::NodeId reader, size_t input);

// Bytes of a value in an iteration of so many rows.
int64_t iteration_bytes(const ProgramFacts& facts, const Dependencies& dependencies,
                        graph::ValueId value, int64_t rows);

// The smallest slice that is a multiple of both, or a lane.
int64_t common_unit(const Dependencies& dependencies, int64_t a, int64_t b);

// Rows of the loop around these nodes, which may share one.
int64_t find_extent(const ProgramFacts& facts, const Dependencies& dependencies,
                    std::span<const graph::NodeId> nodes);

// Whether loops over that axis instead of the batch may help: one sample is in the batch, and a
// block is less than it.
bool cuts_samples(const ProgramFacts& facts, const LoopAxis& axis);

}  // namespace plimsoll::plan
