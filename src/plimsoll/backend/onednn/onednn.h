#pragma once

// The oneDNN backend, or in a build without it (no_onednn.cpp) an error that says so.

#include <memory>

#include "backend/kernel/backends.h"
#include "backend/kernel/kernel.h"

namespace plimsoll::backend {

bool has_onednn();
// An address in the vendor's library; null: it was not built.
const void* onednn_code();
// Throws kBackend where it was not built.
std::unique_ptr<Backend> make_onednn_backend(const KernelSetOptions& options);

}  // namespace plimsoll::backend
