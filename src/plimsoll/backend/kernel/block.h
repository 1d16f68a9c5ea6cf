#pragma once

// The compute block of a node, as a pure function of operator, shapes per sample and kernel set.
//
// The batch extent that the backend likes is halved until inputs and outputs of one call stay below
// a bound; another axis is cut only where one sample's call, weights included, passes a larger one.
// Then come the kernel set's caps and its block set. Every extent is a power of two or the whole
// axis; batch size and memory limit play no part. A block that cuts the rows of images holds one
// image. Where an axis has groups (graph/op.h) its extent is theirs, whatever the rules say.

#include "backend/kernel/backends.h"
#include "base/bytes.h"
#include "graph/kernel_catalog.h"

namespace plimsoll::backend {

struct BlockRule {
  int64_t batch = 8;                          // the extent that is fast enough; a power of two
  Bytes call_bytes = Bytes(8 << 20);          // of operands that have the batch axis
  Bytes sample_call_bytes = Bytes(32 << 20);  // of all operands at one sample
  bool any_rows = false;  // rows of images may be called in any number: no block cuts them
};

graph::Block choose_block(const graph::Graph& graph, graph::NodeId node, const BlockRule& rule,
                          const KernelSetOptions& options);

}  // namespace plimsoll::backend
