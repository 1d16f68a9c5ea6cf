#pragma once

// The gradient of a convolution's kernel, as sums of our own: of windows of any size, stride and
// dilation, channels and filters in any number, undivided into groups.
//
// For each position of the kernel that is a product, channels × filters, summed over the positions
// of dy. Those come in pieces of some 256 (in pairs 512): rows of a piece of an image's columns, or
// several small images. Within a piece, a tile of channels is copied once, with its padding and
// with the columns and rows that strides leave out set apart, so that every position of the kernel
// reads it from a place of its own, one step after the other; dy is copied to panels of two
// vectors. Tile and panel stay in the first cache for all positions of the kernel, in the second
// where dilation spreads them. An element is the sum of its pieces in order, each one chain of
// multiply-adds: nothing depends on threads. Padding is multiplied as zeros: where dy is not
// finite, more of the gradient is not a number than in the reference.
//
// Two steps of bfloat16 numbers go at a time (paired_product.h), where the processor can: two
// columns of a row, the last of an odd number with a zero in place of dy: a source that is not
// finite shows there too. A tile has its channels one after the other, so that two columns from
// any position on are side by side. Where the processor has tiles of its own, a piece is a product
// the other way round, filters × channels: tiled_kernel_grad.cpp.

#include <algorithm>
#include <optional>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/node_facts.h"
#include "ops/image/conv2d.h"

namespace plimsoll::backend::cpu {

inline constexpr int64_t kPlainTileRows = 6;  // channels of a tile; in pairs kPairedTileRows

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
template <typename Number>
struct KernelGradPiece {
  PieceAxis rows, columns;
  int64_t images = 1;
  const Number* x = nullptr;                     // the first image
  int64_t x_image = 0, x_row = 0, x_column = 0;  // strides
  const Number* dy = nullptr;                    // the first output of the first image
  int64_t dy_image = 0, dy_row = 0, dy_column = 0;

  int64_t steps() const { return images * rows.count * columns.count; }
  // Columns in pairs, as steps of a panel.
  int64_t paired_steps() const { return images * rows.count * ((columns.count + 1) / 2 * 2); }
  // Positions of the copied source.
  int64_t copied() const {
    return images * rows.phases() * rows.per_phase() * columns.phases() * columns.per_phase();
  }
  // Where position (i, j) of the kernel begins in a channel of pairs: phase by phase of rows and of
  // columns, each a plane of its own.
  int64_t place_of(int64_t i, int64_t j) const {
    const int64_t plane = rows.phase_of(i) * columns.phases() + columns.phase_of(j);
    return (plane * rows.per_phase() + rows.index_of(i)) * columns.per_phase() +
           columns.index_of(j);
  }
  // The same for a channel of a tile whose columns are read in pairs: one more, in whole lines.
  int64_t paired_row() const {
    constexpr int64_t kLine = 32;
    return (copied() + kLine) / kLine * kLine;
  }
  // In tiles: steps of an image, from its first output to its last, and of all in whole blocks.
  int64_t run() const { return (rows.count - 1) * columns.per_phase() + columns.count; }
  int64_t tiled_steps() const { return images * ((run() + 31) / 32 * 32); }
  // Pairs of positions of one copy of the source, with those that a run's last block reads beyond.
  int64_t tiled_pairs() const { return copied() / 2 + 17; }
};

// The share of a thread, and where it goes.
template <typename Number>
struct KernelGradShare {
  int64_t first_channel = 0, channels = 0;
  int64_t first_filter = 0, filters = 0;
  float* dw = nullptr;      // of the first of both
  int64_t dw_row = 0;       // from channel to channel
  int64_t dw_position = 0;  // from a position of the kernel to the next
  bool add = false;
  // Scratch: a tile's rows, and filters, rounded up to panels, · steps.
  Number* tile = nullptr;
  Number* panels = nullptr;
};

// The same for pairs: panels of 32 filters. Null: the processor has no such products, or the
// compiler does not know them.
using PairedPieceFunction = void (*)(const KernelGradPiece<uint16_t>&,
                                     const KernelGradShare<uint16_t>&);
PairedPieceFunction pick_paired_piece(const CpuOptions& options);
// In the processor's tiles, where the compiler knows the instructions.
extern const PairedPieceFunction kTiledPiece;

// nullopt: another operator, another type than float32 and bfloat16 in pairs, groups, too few
// channels or filters to fill a tile, windows so far apart that a tile fills no cache, or what
// packed_dense.cpp computes.
std::optional<ops::Conv2dGeometry> read_kernel_grad(const NodeFacts& facts,
                                                    const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
