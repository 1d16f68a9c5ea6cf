#pragma once

// Kernels of the reference, shared out among threads along the batch.
//
// Where an operator maps samples to samples and its kernel is row-exact, a part of a block has the
// bits that it has in the whole block. So each thread runs the reference's loops over samples of
// its own, with scratch of its own. Sums over the batch, single samples and saved forms stay with
// one thread.

#include <memory>

#include "backend/kernel/kernel.h"

namespace plimsoll::backend::cpu {

// Scratch of make_shared_reference's kernel, for these extents.
Bytes shared_reference_scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                               std::span<const int64_t> extents, std::span<const std::string> forms,
                               int most_parts);
// How many threads run it.
int shared_reference_parts(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                           std::span<const int64_t> extents, std::span<const std::string> forms,
                           int most_parts);
// Throws as make_reference_kernel does. Operands may have gaps.
std::unique_ptr<Kernel> make_shared_reference(const KernelRequest& request, int most_parts);

// A reference kernel on one thread, under the rounding that our own kernels run under.
std::unique_ptr<Kernel> delegated(std::unique_ptr<Kernel> kernel);

}  // namespace plimsoll::backend::cpu
