#pragma once

// Convolutions of 3 × 3 windows without strides, those in front of a pooling of 2 × 2 too, and both
// gradients of the others, by fewer products:
// F(2 × 2, 3 × 3) of Winograd (1980), in the form of Lavin and Gray (2016, arXiv:1509.09308).
//
// A tile is 2 × 2 outputs and the 4 × 4 positions of the source under them. Of a tile d and a
// window g of one channel, 16 products make what takes 36 otherwise:
//
//   y = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A        dg = Gᵀ [ (A dy Aᵀ) ⊙ (Bᵀ d B) ] G
//
// Over all channels each of the 16 is a matrix product, tiles × channels by channels × filters. The
// gradient to the source is a convolution too, of dy with the windows rotated by 180 degrees.
//
// In front of a pooling a tile is a window of it, so the convolution's result is nowhere in memory.
//
// Tiles are counted from an image's first output, so an output has the same bits whatever tiles are
// computed with it. What an output's window does not hold does not reach it; where the reference
// has an infinity there may be a number that is not one.

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/node_facts.h"
#include "base/bytes.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {

inline constexpr int kWinogradProducts = 16;  // of a tile

// The images that a call's tiles lie in. Rows and columns of the source in front of the first are
// zeros (so many: `before`, which may be negative), and so are those after the last.
struct WinogradImages {
  int64_t source_rows = 0, source_columns = 0, channels = 0;
  int64_t before_rows = 0, before_columns = 0;
  int64_t rows = 0, columns = 0, filters = 0;  // of the outputs

  int64_t tile_rows() const { return (rows + 1) / 2; }
  int64_t tile_columns() const { return (columns + 1) / 2; }
  int64_t tiles() const { return tile_rows() * tile_columns(); }  // of an image
};

// Whether a conv2d, one of its gradients or a conv2d_pool is computed here: 3 × 3 windows, strides
// and dilation of 1, no groups, windows of 2 × 2 side by side where it pools; float32, and for the
// weight the form that winograd_weights says; vectors; and so many channels, filters and columns
// that it pays. The same for all blocks of a node.
bool is_winograd_node(const NodeFacts& facts, const CpuOptions& options);
// The same of a node as its graph has it: bfloat16 is widened where there are no pairs.
bool becomes_winograd_node(const NodeFacts& facts, const CpuOptions& options);

// Reads such a node; the outputs of a conv2d_pool are those that are pooled, of a
// conv2d_grad_kernel those that dy is of.
WinogradImages winograd_images(const NodeFacts& facts);

// The form G g Gᵀ of a convolution's weight, as text and in bytes.
//
//   [piece of channels][panel of filters][product][channel][filter of the panel]
struct WinogradWeights {
  int64_t channels = 0;  // that are summed over: of dy, the filters
  int64_t filters = 0;
  int64_t panel = 0;     // filters of a panel
  bool rotated = false;  // for the gradient to the source

  int64_t panels() const { return ceil_div(filters, panel); }
  Bytes bytes() const {
    return Bytes(kWinogradProducts * channels * panels() * panel *
                 static_cast<int64_t>(sizeof(float)));
  }
};
// Reads a conv2d, conv2d_pool or conv2d_grad_input.
WinogradWeights winograd_weights(const NodeFacts& facts, const CpuOptions& options);
// "winograd:c64:f128:panel32", "…:turned"; no blanks.
std::string print(const WinogradWeights& weights);
bool is_winograd(std::string_view layout);
// Throws kModel: the text comes from a graph.
WinogradWeights parse_winograd(std::string_view layout, const CpuOptions& options);
// A kernel that turns (3, 3, channels, filters) into it; bound by bytes and threads.
CpuKernel make_winograd_pack(const WinogradWeights& weights, const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
