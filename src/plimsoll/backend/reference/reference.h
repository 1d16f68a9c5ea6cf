#pragma once

// The reference backend: plain loops, the truth that other backends are compared with.
//
// Float32, float64, and bfloat16 computed in float32 (kernel/widened.h); one thread, any strides,
// every axis that operators declare. Sums of a block are accumulated in double and rounded once.
// Other backends take single kernels from here for what they do not have themselves.

#include <memory>

#include "backend/kernel/backends.h"
#include "backend/kernel/kernel.h"

namespace plimsoll::backend {

// `linked`: what the libraries of other backends take in a process that links but never calls them.
std::unique_ptr<Backend> make_reference_backend(const KernelSetOptions& options, Bytes linked);
// What the reference has fused kernels for: everything.
ops::Offers reference_offers();
ResidentBytes reference_resident_bytes(const graph::ProgramSet& programs, Bytes linked);

// Throws kModel where there is no kernel for the operator, kBackend where there is none for the
// dtype.
std::unique_ptr<Kernel> make_reference_kernel(const KernelRequest& request);
std::unique_ptr<Kernel> make_reference_encoder(const EncoderRequest& request);
bool has_reference_kernel(std::string_view op);
// Whether that moves bits of elements of any size, bfloat16 too.
bool reference_moves(std::string_view op);

// Scratch of a call of the reference kernel, exactly.
Bytes reference_scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                        std::span<const int64_t> extents, std::span<const std::string> forms);

// Whether a row's bits do not depend on the other rows of a call along that axis.
bool reference_row_exact(const graph::Graph& graph, graph::NodeId node, int axis);

}  // namespace plimsoll::backend
