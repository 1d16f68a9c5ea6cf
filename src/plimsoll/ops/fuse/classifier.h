#pragma once

// Finds dense layers whose results go into a sparse categorical cross-entropy and nowhere else.

#include <vector>

#include "graph/ir.h"
#include "ops/fuse/pooled.h"

namespace plimsoll::ops {

// The groups around this sparse_crossentropy node: the forward pass, and where the graph has them
// the gradients. Empty where logits or what is made of them have another reader (a metric), where a
// sample's logits are less than 16 MiB, or where the gradients are not those of x, weight and bias
// together. `users` as of find_users.
//
//   dense ─ bias_add ─ logits ─┬─ log_sum_exp ─┬─ sparse_crossentropy ─ loss
//                              ├─ pick_class ──┘
//   dense_grad_input  ─┐       │
//   dense_grad_kernel ─┼── softmax_crossentropy_grad ── d(loss)
//   bias_grad ─────────┘
std::vector<Group> match_classifier(const graph::Graph& graph,
                                    const std::vector<std::vector<graph::NodeId>>& users,
                                    graph::NodeId loss);

}  // namespace plimsoll::ops
