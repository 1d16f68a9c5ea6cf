#pragma once

// What the vendor's library and its primitives hold outside of the arena.
//
// Upper bounds from measurements (docs/design/0002-kernel-sets.md): of a process that runs kernels
// of every family after it has given back what only loading and making needed (library_pages.h),
// and of one more primitive of each family, code and heap overhead included.

#include "backend/kernel/kernel.h"
#include "backend/onednn/primitives.h"
#include "graph/program.h"

namespace plimsoll::backend::onednn {

ResidentBytes estimate_resident_bytes(const PrimitiveLibrary& library,
                                      const graph::ProgramSet& programs, int threads);

}  // namespace plimsoll::backend::onednn
