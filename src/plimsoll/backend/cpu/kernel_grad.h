#pragma once

// The gradient of a convolution's kernel, as sums of our own: of windows of any size, stride and
// dilation, channels and filters in any number, undivided into groups.
//
// For each position of the kernel that is a product, channels × filters, summed over the positions
// of dy. Those come in pieces of some 256: rows of a piece of an image's columns, or several small
// images. Within a piece, a tile of channels is copied once, with its padding and with the columns
// and rows that strides leave out set apart, so that every position of the kernel reads it from a
// place of its own, one step after the other; dy is copied to panels of two vectors. Tile and panel
// stay in the first cache for all positions of the kernel, in the second where dilation spreads
// them. An element is the sum of its pieces in order, each one chain of multiply-adds: nothing
// depends on threads. Padding is multiplied as zeros: where dy is not finite, more of the gradient
// is not a number than in the reference.

#include <algorithm>
#include <optional>

#include "backend/cpu/isa.h"
#include "backend/cpu/node_facts.h"
#include "ops/conv2d.h"

namespace plimsoll::backend::cpu {

inline constexpr int64_t kMostTileRows = 6;  // channels of a tile

// Rows or columns of a piece, and where the copy of what its windows reach has them: position p of
// the source, counted from the first, is at index p / stride of phase p % stride.
struct PieceAxis {
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t size = 1;   // of the kernel
  int64_t input = 0;  // of the source
  int64_t first = 0;  // position of the source under the piece's first and the kernel's; may be < 0
  int64_t count = 0;  // of outputs
  int64_t phases() const { return std::min(stride, (size - 1) * dilation + 1); }
  int64_t per_phase() const { return count + (size - 1) * dilation / stride; }
  int64_t phase_of(int64_t tap) const { return tap * dilation % stride; }
  int64_t index_of(int64_t tap) const { return tap * dilation / stride; }
};

// What a thread computes at once: some rows and columns of each of several images.
struct KernelGradPiece {
  PieceAxis rows, columns;
  int64_t images = 1;
  const float* x = nullptr;                      // the first image
  int64_t x_image = 0, x_row = 0, x_column = 0;  // strides
  const float* dy = nullptr;                     // the first output of the first image
  int64_t dy_image = 0, dy_row = 0, dy_column = 0;

  int64_t steps() const { return images * rows.count * columns.count; }
  // Positions of the copied source.
  int64_t copied() const {
    return images * rows.phases() * rows.per_phase() * columns.phases() * columns.per_phase();
  }
};

// The share of a thread, and where it goes.
struct KernelGradShare {
  int64_t first_channel = 0, channels = 0;
  int64_t first_filter = 0, filters = 0;
  float* dw = nullptr;      // of the first of both
  int64_t dw_row = 0;       // from channel to channel
  int64_t dw_position = 0;  // from a position of the kernel to the next
  bool add = false;
  float* tile = nullptr;    // scratch: kMostTileRows · copied() floats
  float* panels = nullptr;  // scratch: filters, rounded up to panels, · steps() floats
};

// Of float32, without AVX-512 (there the vendor's are as fast); nullopt: another operator, groups,
// too few channels or filters to fill a tile, windows so far apart that a tile fills no cache, or
// what packed_dense.cpp computes.
std::optional<ops::Conv2dGeometry> read_kernel_grad(const NodeFacts& facts, Isa isa);

}  // namespace plimsoll::backend::cpu
