#pragma once

// Programs: graphs at a batch size, planned together and sharing state.
//
// Training, the short last batch, evaluation and its tail, prediction and initialization are
// programs of one set. A state variable is one variable in all of them when the names are equal;
// its type is equal too (verify.h checks).

#include <string>
#include <vector>

#include "graph/ir.h"

namespace plimsoll::graph {

struct Program {
  std::string
      name{};  // "train", "train_tail", "evaluate", "evaluate_tail", "predict", "initialize"
  Graph graph{};
  int64_t batch = 1;
  int64_t lanes = 1;  // of the batch (graph/lanes.h)
  friend bool operator==(const Program&, const Program&) = default;
};

struct ProgramSet {
  std::vector<Program> programs{};
  friend bool operator==(const ProgramSet&, const ProgramSet&) = default;
};

// All state variables of the set by first appearance, without incoming and write.
std::vector<StateVariable> states_of(const ProgramSet& set);
const Program* find_program(const ProgramSet& set, std::string_view name);
// A stable 64-bit fingerprint of graphs and batches, for plans and checkpoints.
uint64_t fingerprint(const ProgramSet& set);

}  // namespace plimsoll::graph
