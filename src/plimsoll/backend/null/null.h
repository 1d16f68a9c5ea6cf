#pragma once

// The null backend: the reference's catalog, with kernels that do nothing.
//
// It accounts for any plan (blocks, scratch, estimated times, every check of a kernel's request) at
// no cost, so that plans of large models can be made and run as tests without computing. The
// sleeping backend is the same, but takes the estimated time: more ranks than there are processors
// for can exchange beside it as if each had its own.

#include <memory>

#include "backend/kernel/backends.h"
#include "backend/kernel/kernel.h"

namespace plimsoll::backend {

std::unique_ptr<Backend> make_null_backend(const KernelSetOptions& options, Bytes linked);
std::unique_ptr<Backend> make_sleeping_backend(const KernelSetOptions& options, Bytes linked);

}  // namespace plimsoll::backend
