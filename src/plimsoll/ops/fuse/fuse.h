#pragma once

// Graph rewrites before planning: what a backend offers, as data.
//
// A fused group is one node for everything that comes after (blocks, planning, execution), so
// fusion happens once, after autodiff and before planning, and never depends on the limit.
// A rewrite merges nodes only where the values in between have no other reader, and keeps names:
// the fused node is called as its last member was, so its output keeps its name too.

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/ir.h"
#include "graph/op.h"

namespace plimsoll::ops {

// Which patterns a backend has kernels for.
struct Offers {
  bool conv2d_bias = false;  // conv2d or conv3d + bias_add
  bool conv2d_relu = false;  // … + activation relu (plain)
  bool dense_bias = false;
  bool dense_relu = false;
  // conv2d + bias_add + relu + max_pool2d with windows side by side, and their gradients
  bool conv2d_max_pool = false;
  // dense + bias_add + sparse cross-entropy from logits, and their gradients, where logits are many
  bool dense_crossentropy = false;
  bool kernel_gradient_bias = false;  // *_grad_kernel + bias_grad of the same gradient
  // dense_grad_kernel + the optimizer's update of a weight from so many bytes and rows on, where it
  // takes at least twice what both factors of all samples do; no bytes: of no weight.
  Bytes dense_update{};
  int64_t dense_update_rows = 0;
  friend bool operator==(const Offers&, const Offers&) = default;
};

// `batch`: samples of the program.
graph::Graph fuse(const graph::Graph& graph, const graph::OpRegistry& registry,
                  const Offers& offers, int64_t batch);

// A packed form that a node's kernel wants for one of its weights, at every limit.
struct PackOffer {
  int input = 0;
  std::string layout;  // names the form: equal layouts of one value are one pack node
  Bytes bytes;
  friend bool operator==(const PackOffer&, const PackOffer&) = default;
};
using PackOffers = std::function<std::vector<PackOffer>(const graph::Graph&, graph::NodeId)>;

// Puts a `pack` node in front of every operand that the backend wants packed.
graph::Graph insert_packs(const graph::Graph& graph, const graph::OpRegistry& registry,
                          const PackOffers& offers);

// For ranks that share a step of so many samples: puts a `rank_sum` node after every sum over
// samples, and a `rank_gather` node before operators that look at all of them at once. Throws
// kModel, naming it, where such an operator's result is one of samples.
graph::Graph insert_rank_sums(const graph::Graph& graph, const graph::OpRegistry& registry,
                              int64_t samples);

}  // namespace plimsoll::ops
