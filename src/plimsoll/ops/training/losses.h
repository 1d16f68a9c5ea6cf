#pragma once

// Losses that are several nodes: built here, so that their parts always fit together.

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Sparse categorical cross-entropy per row: logits (B, …, C), integer labels (B, …) → (B, …).
//
//   logits ─▶ log_sum_exp ──▶ sparse_crossentropy ─▶ loss       max + log(sum) − picked
//      └────▶ pick_class ─────┘
//
// The first two can be cut along the classes, and so can the gradient, which is one node
// (softmax_crossentropy_grad): a loop over chunks of the classes never holds all logits.
graph::ValueId sparse_crossentropy_from_logits(graph::GraphBuilder& builder, std::string_view name,
                                               graph::ValueId logits, graph::ValueId labels);

}  // namespace plimsoll::ops
