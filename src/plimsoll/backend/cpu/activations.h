#pragma once

// What the loops of activations take beside their arrays.

#include <cstdint>

namespace plimsoll::backend::cpu {

// Parameters of a kind (ops::Activation), in the element type.
struct ActivationNumbers {
  float alpha = 1;
  float slope = 0;  // of negative numbers
  float top = 0;    // maximum, infinity where there is none
  float threshold = 0;
  bool passes_top = true;  // whether f'(top) is 1
};

// y = f(x).
using ActivationValues = void (*)(const ActivationNumbers&, const float* x, float* y,
                                  int64_t count);
// dx = dy · f'(reference).
using ActivationSlopes = void (*)(const ActivationNumbers&, const float* dy, const float* reference,
                                  float* dx, int64_t count);

}  // namespace plimsoll::backend::cpu
