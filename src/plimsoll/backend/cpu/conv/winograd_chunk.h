#pragma once

// What the loops of Winograd's convolutions are called with (winograd.h).

#include "backend/cpu/conv/winograd.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {

// Channels of which transformed tiles are kept at a time: 56 tiles of so many take 448 KiB.
inline constexpr int64_t kWinogradPiece = 128;
// Tiles of a chunk: each reads the weights once.
inline constexpr int64_t kWinogradTiles = 56;

constexpr int64_t winograd_piece(int64_t channels) {
  const int64_t pieces = ceil_div(channels, kWinogradPiece);
  return ceil_div(channels, pieces);
}

// How a chunk's scratch is laid out, in floats: transformed tiles [product][tile][channel], and
// products [panel][product][tile][filter of the panel], of one panel where channels are one piece.
// Products are a line more than whole pages apart, or they would meet in few places of the caches.
struct WinogradScratch {
  static constexpr int64_t kLine = 16;
  int64_t pieces = 1;
  int64_t piece = 0;
  int64_t source_row = 0, source_plane = 0;
  int64_t product_plane = 0;
  int64_t panels = 1;  // that are kept

  int64_t source_floats() const { return kWinogradProducts * source_plane; }
  int64_t product_floats() const { return kWinogradProducts * product_plane; }
  int64_t floats() const { return source_floats() + panels * product_floats(); }
};
constexpr WinogradScratch winograd_scratch(const WinogradImages& images, int64_t tiles,
                                           int64_t panel) {
  const int64_t lanes = panel / 2;
  WinogradScratch s;
  s.piece = winograd_piece(images.channels);
  s.pieces = ceil_div(images.channels, s.piece);
  s.source_row = round_up(s.piece, lanes);
  s.source_plane = round_up(tiles * s.source_row, s.kLine) + s.kLine;
  s.product_plane = round_up(tiles * panel, s.kLine) + s.kLine;
  s.panels = s.pieces > 1 ? ceil_div(images.filters, panel) : 1;
  return s;
}

// Tiles [first, first + count) of all images of a call.
struct WinogradChunk {
  WinogradImages images;
  int64_t first = 0, count = 0;
  const float* x = nullptr;        // the first image
  const float* weights = nullptr;  // as WinogradWeights says
  const float* bias = nullptr;
  bool relu = false;
  float* y = nullptr;
  // Each tile is pooled to one output: y and winners (ops/image/conv2d_pool.cpp) are of those, and
  // either may be null.
  bool pools = false;
  uint8_t* winners = nullptr;
  float* scratch = nullptr;
};

// A weight on its way into its form.
struct WinogradPack {
  WinogradWeights weights;
  const float* plain = nullptr;
  float* to = nullptr;
};

}  // namespace plimsoll::backend::cpu
