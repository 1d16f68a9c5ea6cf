#pragma once

// How the gradient of a convolution's kernel is cut into shares of threads and into pieces.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/conv/kernel_grad.h"
#include "backend/cpu/product/tiled_product.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {

// A thread's share of channels begins at a multiple.
inline constexpr int64_t kChannelGrain = 2;
// Columns of a piece: fewer, and its windows reach fewer rows around it.
inline constexpr int64_t kPieceColumns = 64;

// Multiplies bfloat16 numbers in the processor's tiles.
struct Tiled {
  using Number = uint16_t;
  using Piece = KernelGradPiece<uint16_t>;
  // What sums are added to is what takes time; but the transposed filters lie in the second cache.
  static int64_t piece_steps(const ops::Conv2dGeometry& g) {
    return g.filters <= 128 ? 2048 : 1024;
  }
  static constexpr int64_t kTileRows = kBlockRows;
  static constexpr int64_t kMostTileBytes = 512 << 10;

  explicit Tiled(const CpuOptions& options) : loop(pick_paired_piece(options)) {}
  static int64_t tile_numbers(const Piece& p) { return 2 * p.tiled_pairs() * kBlockPairNumbers; }
  static int64_t steps(const Piece& p) { return p.tiled_steps(); }

  PairedPieceFunction loop;
  int64_t panel = kPairedColumns;
};

// Rows, columns and images of a piece.
struct PieceSize {
  int64_t rows = 1, columns = 1, images = 1;
};
// Rows and columns of a piece are multiples.
struct PieceGrain {
  int64_t rows = 1, columns = 1;
};
// The first output of a piece.
struct PiecePlace {
  int64_t image = 0, row = 0, column = 0;
};

// `most` rows or columns from the output `first` on.
inline PieceAxis piece_axis(const ops::Window& w, int64_t first, int64_t most) {
  return {.stride = w.stride,
          .dilation = w.dilation,
          .size = w.size,
          .input = w.input,
          .first = w.position(first, 0),
          .count = std::min(most, w.output - first)};
}

template <typename Family>
typename Family::Piece largest_piece(const ops::Conv2dGeometry& g, const PieceSize& size) {
  typename Family::Piece largest;
  largest.rows = piece_axis(g.rows(), 0, size.rows);
  largest.columns = piece_axis(g.columns(), 0, size.columns);
  largest.images = size.images;
  return largest;
}

template <typename Family>
int64_t tile_bytes(const ops::Conv2dGeometry& g, const PieceSize& size) {
  constexpr auto kNumber = static_cast<int64_t>(sizeof(typename Family::Number));
  return round_up_to_line(Family::tile_numbers(largest_piece<Family>(g, size)) * kNumber);
}

template <typename Family>
PieceSize piece_size(const ops::Conv2dGeometry& g, int64_t samples, const PieceGrain& grain) {
  const auto in_grains = [](int64_t count, int64_t each) { return ceil_div(count, each) * each; };
  const int64_t steps = Family::piece_steps(g);
  const int64_t most_columns = g.rows().output == 1 ? steps : kPieceColumns;
  PieceSize size;
  size.columns = in_grains(ceil_div(g.columns().output, ceil_div(g.columns().output, most_columns)),
                           grain.columns);
  const int64_t rows = std::max<int64_t>(steps / size.columns, 1);
  size.rows = in_grains(ceil_div(g.rows().output, ceil_div(g.rows().output, rows)), grain.rows);
  if (size.rows == g.rows().output && size.columns == g.columns().output) {
    const int64_t images = std::min(steps / (size.rows * size.columns),
                                    Family::kMostTileBytes / tile_bytes<Family>(g, size));
    size.images = std::clamp<int64_t>(images, 1, samples);
  }
  return size;
}

// Whether a tile leaves the second cache room: windows may lie far apart.
template <typename Family>
bool fits_cache(const ops::Conv2dGeometry& g, const PieceGrain& grain) {
  return tile_bytes<Family>(g, piece_size<Family>(g, 1, grain)) <= Family::kMostTileBytes;
}

template <typename Family>
class KernelGradWalk {
 public:
  using Number = typename Family::Number;
  using Piece = typename Family::Piece;
  using Share = KernelGradShare<Number>;

  KernelGradWalk(const ops::Conv2dGeometry& g, int64_t samples, const PieceGrain& grain,
                 const CpuOptions& options)
      : g_(g), samples_(samples), size_(piece_size<Family>(g, samples, grain)), family_(options) {
    share_out(options.parts);
  }

  int64_t samples() const { return samples_; }
  int parts() const { return filter_parts_ * channel_parts_; }
  // Scratch of a part.
  int64_t part_bytes() const { return tile_bytes_ + panel_bytes_; }
  // The largest of its pieces, and the most filters.
  const PieceSize& size() const { return size_; }
  int64_t most_filters() const {
    return ceil_div(ceil_div(g_.filters, family_.panel), filter_parts_) * family_.panel;
  }
  Range filters_of(int part) const {
    return part_of(g_.filters, family_.panel, part % filter_parts_, filter_parts_);
  }
  // Whether the part is the first of those with its filters.
  bool leads(int part) const { return part < filter_parts_; }

  // Sums a part's share to the call's first output; its first input is the source. Each piece's
  // gradient is where set_gradient(Piece&, Share&, PiecePlace) says, which finds strides of a
  // gradient that lies as the convolution's result does.
  template <typename SetGradient>
  void sum_share(const KernelCall& call, int part, const SetGradient& set_gradient) const noexcept {
    const Range channels =
        part_of(g_.channels, kChannelGrain, part / filter_parts_, channel_parts_);
    const Range filters = filters_of(part);
    Share share;
    share.first_channel = channels.begin;
    share.channels = channels.end - channels.begin;
    share.first_filter = filters.begin;
    share.filters = filters.end - filters.begin;
    share.dw_row = g_.filters;
    share.dw_position = g_.channels * g_.filters;
    share.dw = output_floats(call, 0) + channels.begin * g_.filters + filters.begin;
    share.add = !call.first;
    std::byte* scratch = call.scratch + part * part_bytes();
    share.tile = reinterpret_cast<Number*>(scratch);
    share.panels = reinterpret_cast<Number*>(scratch + tile_bytes_);
    for (int64_t image = 0; image < samples_; image += size_.images) {
      for (int64_t row = 0; row < g_.rows().output; row += size_.rows) {
        for (int64_t column = 0; column < g_.columns().output; column += size_.columns) {
          Piece p = piece(image, row, column);
          p.x = reinterpret_cast<const Number*>(call.inputs[0].data) + image * p.x_image;
          set_gradient(p, share, {image, row, column});
          family_.loop(p, share);
          share.add = true;
        }
      }
    }
  }

 private:
  // Threads share out channels, so that each copies its own, and panels of filters where channels
  // are too few.
  void share_out(int most_parts) {
    const int64_t panels = ceil_div(g_.filters, family_.panel);
    int64_t channel_parts = std::clamp<int64_t>(g_.channels / Family::kTileRows, 1, most_parts);
    for (int most = 0; channel_parts > 0; --channel_parts) {
      const int64_t filter_parts = std::min(most_parts / channel_parts, panels);
      if (channel_parts * filter_parts <= most) continue;
      most = static_cast<int>(channel_parts * filter_parts);
      channel_parts_ = static_cast<int>(channel_parts);
      filter_parts_ = static_cast<int>(filter_parts);
    }
    tile_bytes_ = tile_bytes<Family>(g_, size_);
    const int64_t steps = Family::steps(largest_piece<Family>(g_, size_));
    panel_bytes_ = round_up_to_line(most_filters() * steps * static_cast<int64_t>(sizeof(Number)));
  }

  // Rows and columns from there on, of the images from `image` on.
  Piece piece(int64_t image, int64_t row, int64_t column) const {
    Piece p;
    p.rows = piece_axis(g_.rows(), row, size_.rows);
    p.columns = piece_axis(g_.columns(), column, size_.columns);
    p.images = std::min(size_.images, samples_ - image);
    p.x_column = g_.channels;
    p.x_row = g_.columns().input * p.x_column;
    p.x_image = g_.rows().input * p.x_row;
    p.dy_column = g_.filters;
    p.dy_row = g_.columns().output * p.dy_column;
    p.dy_image = g_.rows().output * p.dy_row;
    return p;
  }

  ops::Conv2dGeometry g_;
  int64_t samples_;
  PieceSize size_;
  Family family_;
  int filter_parts_ = 1, channel_parts_ = 1;
  int64_t tile_bytes_ = 0, panel_bytes_ = 0;
};

}  // namespace plimsoll::backend::cpu
