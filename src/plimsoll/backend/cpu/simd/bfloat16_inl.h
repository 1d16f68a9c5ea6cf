// Loops of widened.cpp; see for_each_isa.h.

#include "backend/cpu/simd/vector_walk_inl.h"

void widen_values(const uint16_t* from, float* to, int64_t count) {
  for_each_vector(count, [&](auto lanes) { lanes.put(to, lanes.get(from)); });
}
void round_values(const float* from, uint16_t* to, int64_t count) {
  for_each_vector(count, [&](auto lanes) { lanes.put(to, lanes.get(from)); });
}
