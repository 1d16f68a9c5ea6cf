#pragma once

// The backend of our own kernels alone: vectorized loops and products for every network, without a
// vendor's library. What no network spends its time in is the reference's (kernel_library.h).

#include <memory>

#include "backend/kernel/backends.h"
#include "backend/kernel/kernel.h"

namespace plimsoll::backend {

// `linked`: what the libraries of other backends take in a process that links but never calls them.
std::unique_ptr<Backend> make_cpu_backend(const KernelSetOptions& options, Bytes linked);

}  // namespace plimsoll::backend
