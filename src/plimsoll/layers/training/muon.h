#pragma once

// Keras's Muon: matrices move along the nearest orthogonal matrix to their momentum, which some
// iterations of Newton and Schulz find (products of matrices, nodes like any others); what is no
// matrix, and tables and layers that are left out, is updated by Adam.
//
//   m' = momentum m + g;  x = (g + momentum m', or m') / (its norm + 1e-7)
//   ns_steps times:  A = x xᵀ;  x = a x + (b A + c A A) x      (xᵀ x and x (…) where x is tall)
//   w' = w − lr x sqrt(larger extent) rms_rate, after the weight's decay

#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "layers/config/option_reader.h"

namespace plimsoll::layers {

struct Muon {
  double a = 0, b = 0, c = 0;
  double momentum = 0;
  int64_t steps = 0;
  bool nesterov = true;
  std::optional<double> rms_rate{};
  std::optional<double> weight_decay{};  // of its matrices
  double adam_rate_ratio = 1;            // of Adam's learning rate to Muon's
  bool exclude_embeddings = true;
  std::vector<std::string> exclude_layers{};  // looked for in weights' names: text with . ^ $
  friend bool operator==(const Muon&, const Muon&) = default;
};

Muon read_muon(OptionReader& options);

// Whether Muon updates this weight, and not Adam.
bool takes(const Muon& muon, const std::string& weight, size_t rank);

// New weight and momentum. `name` is the weight's.
struct MuonStep {
  graph::ValueId weight;
  graph::ValueId momentum;
};
MuonStep add_muon_step(graph::GraphBuilder& builder, const Muon& muon, const std::string& name,
                       const MuonStep& before, graph::ValueId gradient,
                       graph::ValueId learning_rate);

}  // namespace plimsoll::layers
