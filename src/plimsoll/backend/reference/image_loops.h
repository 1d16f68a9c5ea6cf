#pragma once

#include <cstdint>

#include "backend/kernel/kernel.h"
#include "backend/reference/loops.h"
#include "ops/image/conv2d.h"

// How the reference convolutions walk an image: a pixel, the kernel positions over it, and which
// output a kernel position joins with an input. No arithmetic on the values.
namespace plimsoll::backend::reference {

// A pixel of an image operand: its channels lie side by side.
template <typename T>
T* pixel(const Operand& image, int64_t sample, int64_t row, int64_t column) {
  return data_of<T>(image) + sample * image.strides[0] + row * image.strides[1] +
         column * image.strides[2];
}

// Calls body(tap, input row, input column) for the kernel positions that lie inside of the input.
template <typename Body>
void for_each_tap(const ops::Conv2dGeometry& g, int64_t out_row, int64_t out_column, Body body) {
  for (int64_t i = 0; i < g.rows().size; ++i) {
    const int64_t row = g.rows().position(out_row, i);
    if (!g.rows().inside(row)) continue;
    for (int64_t j = 0; j < g.columns().size; ++j) {
      const int64_t column = g.columns().position(out_column, j);
      if (g.columns().inside(column)) body(i * g.columns().size + j, row, column);
    }
  }
}

// The output position that kernel position `tap` joins with input position `at`; −1: none.
inline int64_t output_of(const ops::Window& window, int64_t at, int64_t tap) {
  const int64_t shifted = at + window.before - tap * window.dilation;
  if (shifted < 0 || shifted % window.stride != 0) return -1;
  const int64_t output = shifted / window.stride;
  return output < window.output ? output : -1;
}

}  // namespace plimsoll::backend::reference
