#pragma once

// What must come before what, and which nodes a loop over the batch may hold.
//
// Besides the flow of values there are the states: every reader of a variable's incoming value
// comes before the node that writes it, and, where that closes no circle, before the node whose
// result may take the variable's memory over.

#include <cstdint>
#include <vector>

#include "plan/program_facts.h"

namespace plimsoll::plan {

// How a node stands to loops over the batch.
struct BatchRole {
  int axis = -1;        // its batch axis; −1: none
  bool sliced = false;  // may stand in a loop over the batch
  // Slices around it are multiples of this: its block, 1 where rows may be called in any number.
  int64_t unit = 1;
  friend bool operator==(const BatchRole&, const BatchRole&) = default;
};

struct Dependencies {
  std::vector<BatchRole> roles;                    // per node
  std::vector<std::vector<graph::NodeId>> before;  // per node, by rising number
  std::vector<std::vector<graph::NodeId>> after;   // the same the other way round
  std::vector<graph::NodeId> order;                // one order that holds all of them
  std::vector<graph::ValueId> updates;  // per state variable: the value that may take its memory
  // Per value: whether its producer may be computed again. It makes rows from rows, or stands
  // outside of every loop; it writes no state. Inputs may be fed again.
  std::vector<bool> repeatable;
};

Dependencies find_dependencies(const ProgramFacts& facts);

// Whether rows of the value are made slice by slice when its producer stands in a loop over the
// batch. Inputs with a batch dimension are.
bool is_carried(const ProgramFacts& facts, const Dependencies& dependencies, graph::ValueId value);

}  // namespace plimsoll::plan
