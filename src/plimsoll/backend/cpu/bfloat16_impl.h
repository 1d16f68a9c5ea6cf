// Loops of widened.cpp; see for_each_isa.h.

void widen_values(const uint16_t* from, float* to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    __builtin_memcpy(to + i, &bits, sizeof(bits));
  }
}

// As bfloat16_of_float, without a branch.
void round_values(const float* from, uint16_t* to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, from + i, sizeof(bits));
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40u;
    to[i] = static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
  }
}
