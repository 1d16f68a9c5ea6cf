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

// y = f(x). T: float, or uint16_t for bfloat16.
template <typename T>
using ActivationValues = void (*)(const ActivationNumbers&, const T* x, T* y, int64_t count);
// dx = dy · f'(reference).
template <typename T>
using ActivationSlopes = void (*)(const ActivationNumbers&, const T* dy, const T* reference, T* dx,
                                  int64_t count);

}  // namespace plimsoll::backend::cpu
