#pragma once

#include <cstdint>

#include "backend/kernel/kernel.h"
#include "backend/reference/loops.h"
#include "ops/image/windows.h"

// How the reference convolutions walk an image or a volume: a position of it, the kernel positions
// over that, and which output a kernel position joins with an input. No arithmetic on the values.
namespace plimsoll::backend::reference {

// A pixel of an image operand: its channels lie side by side.
template <typename T>
T* pixel(const Operand& image, int64_t sample, int64_t row, int64_t column) {
  return data_of<T>(image) + sample * image.strides[0] + row * image.strides[1] +
         column * image.strides[2];
}

// A position of an image, which is slab 0, or of a volume.
struct Place {
  int64_t slab = 0;
  int64_t row = 0;
  int64_t column = 0;
};

// Its channels, side by side, of an operand (B, sizes…, channels).
template <typename T>
T* voxel(const Operand& volume, int64_t sample, const Place& at) {
  const size_t rows = volume.dims.size() - 3;
  const int64_t slab = rows == 2 ? at.slab * volume.strides[1] : 0;
  return data_of<T>(volume) + sample * volume.strides[0] + slab + at.row * volume.strides[rows] +
         at.column * volume.strides[rows + 1];
}

// Calls body(sample, place) for each position of the output.
template <typename Body>
void for_each_output(const ops::Windows& window, int64_t samples, Body body) {
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t k = 0; k < window.slabs().output; ++k) {
      for (int64_t i = 0; i < window.rows().output; ++i) {
        for (int64_t j = 0; j < window.columns().output; ++j) body(n, Place{k, i, j});
      }
    }
  }
}

// Calls body(sample, place) for each position of the input.
template <typename Body>
void for_each_input(const ops::Windows& window, int64_t samples, Body body) {
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t k = 0; k < window.slabs().input; ++k) {
      for (int64_t i = 0; i < window.rows().input; ++i) {
        for (int64_t j = 0; j < window.columns().input; ++j) body(n, Place{k, i, j});
      }
    }
  }
}

// Calls body(tap, input place) for the kernel positions that lie inside of the input.
template <typename Body>
void for_each_tap(const ops::Windows& window, const Place& output, Body body) {
  const ops::Window& slabs = window.slabs();
  const ops::Window& rows = window.rows();
  const ops::Window& columns = window.columns();
  for (int64_t s = 0; s < slabs.size; ++s) {
    const int64_t slab = slabs.position(output.slab, s);
    if (!slabs.inside(slab)) continue;
    for (int64_t i = 0; i < rows.size; ++i) {
      const int64_t row = rows.position(output.row, i);
      if (!rows.inside(row)) continue;
      for (int64_t j = 0; j < columns.size; ++j) {
        const int64_t column = columns.position(output.column, j);
        if (!columns.inside(column)) continue;
        body((s * rows.size + i) * columns.size + j, Place{slab, row, column});
      }
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

// Calls body(tap, output place) for the kernel positions that join an input position with an
// output.
template <typename Body>
void for_each_reaching(const ops::Windows& window, const Place& input, Body body) {
  for (int64_t s = 0; s < window.slabs().size; ++s) {
    const int64_t slab = output_of(window.slabs(), input.slab, s);
    if (slab < 0) continue;
    for (int64_t i = 0; i < window.rows().size; ++i) {
      const int64_t row = output_of(window.rows(), input.row, i);
      if (row < 0) continue;
      for (int64_t j = 0; j < window.columns().size; ++j) {
        const int64_t column = output_of(window.columns(), input.column, j);
        if (column < 0) continue;
        body((s * window.rows().size + i) * window.columns().size + j, Place{slab, row, column});
      }
    }
  }
}

}  // namespace plimsoll::backend::reference
