#pragma once

// Softmax cross-entropy of one row of logits, or of some of its classes (rows.cpp).

#include <cstdint>

#include "backend/cpu/simd/isa.h"

namespace plimsoll::backend::cpu {

struct ClassRowLoops {
  // pair: the largest of `count` logits, and Σ exp(logit − largest).
  void (*log_sum)(const float* x, int64_t count, float* pair) = nullptr;
  // Two pairs as one, in the place of the first.
  void (*merge)(float* pair, const float* other) = nullptr;
  // (exp(x − most) / sum − [i = label]) · d; dx may be x.
  void (*gradient)(const float* x, const float* pair, int64_t label, float d, float* dx,
                   int64_t count) = nullptr;
};
ClassRowLoops pick_class_rows(Isa isa);

}  // namespace plimsoll::backend::cpu
