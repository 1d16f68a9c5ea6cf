#pragma once

// Conversion of bfloat16 to float32 and back, by vectors.

#include <cstdint>

#include "backend/cpu/simd/isa.h"

namespace plimsoll::backend::cpu {

// numbers[i] = bits[i], and bits[i] = numbers[i] rounded (base/bfloat16.h).
void widen_numbers(const uint16_t* bits, float* numbers, int64_t count, Isa isa);
void round_numbers(const float* numbers, uint16_t* bits, int64_t count, Isa isa);

}  // namespace plimsoll::backend::cpu
