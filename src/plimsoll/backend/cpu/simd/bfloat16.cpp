#include "backend/cpu/simd/bfloat16.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/simd/bfloat16_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {

void widen_numbers(const uint16_t* bits, float* numbers, int64_t count, Isa isa) {
  PLIMSOLL_PICK(isa, widen_values)(bits, numbers, count);
}

void round_numbers(const float* numbers, uint16_t* bits, int64_t count, Isa isa) {
  PLIMSOLL_PICK(isa, round_values)(numbers, bits, count);
}

}  // namespace plimsoll::backend::cpu
