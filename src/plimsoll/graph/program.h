#pragma once

// Programs: graphs at a batch size, planned together and sharing state.
//
// Training, the short last batch, evaluation and its tail, prediction and initialization are
// programs of one set. A state variable is one variable in all of them when the names are equal;
// its type is equal too (verify.h checks).

#include <optional>
#include <string>
#include <vector>

#include "graph/ir.h"

namespace plimsoll::graph {

// The part of a step that a program computes where several ranks share its batch (graph/ranks.h).
struct Share {
  int64_t lane = 0;     // samples of a lane
  int64_t samples = 0;  // of the step's batch
  int64_t first = 0;    // of them: the first one that is computed here
  int64_t each = 0;     // samples of a rank that is full
  friend bool operator==(const Share&, const Share&) = default;
};

struct Program {
  std::string
      name{};  // "train", "train_tail", "evaluate", "evaluate_tail", "predict", "initialize"
  Graph graph{};
  int64_t batch = 1;
  int64_t lanes = 1;  // of the step's batch (graph/lanes.h)
  // Where ranks share the step: the batch is then that of this rank, one sample where it has none.
  std::optional<Share> share{};
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
