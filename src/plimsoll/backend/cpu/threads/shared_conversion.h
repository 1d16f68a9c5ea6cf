#pragma once

// The conversion of bfloat16 that widened kernels (kernel/widened.h) get here: by vectors, shared
// among the threads of the team.

#include "backend/cpu/simd/isa.h"
#include "backend/kernel/widened.h"

namespace plimsoll::backend::cpu {

Bfloat16Conversion shared_conversion(Isa isa, int most_parts);

}  // namespace plimsoll::backend::cpu
