#pragma once

// Training steps of toy operators, as the planner sees real ones: layers, activations, a loss,
// gradients mirrored after it, updates of state variables.

#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::plan::testing {

struct ToyNetwork {
  std::string name = "train";
  int64_t batch = 32;
  std::vector<int64_t> widths = {8, 16, 4};  // of the input and of each layer
  bool normalized = false;                   // each layer ends in a total over the batch
  bool training = true;                      // gradients and updates
};

// Program text (graph/text.h). Node hN: a layer, yN: its activation, nN: normalized; dN, zN, gN:
// gradients of activation, layer and weights; uN: update.
std::string toy_network_text(const ToyNetwork& network);
graph::ProgramSet toy_network(const ToyNetwork& network);
// Training, its tail of `tail` samples, and evaluation.
graph::ProgramSet toy_programs(ToyNetwork network, int64_t tail);

}  // namespace plimsoll::plan::testing
