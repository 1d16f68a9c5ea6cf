#include "backend/cpu/kernel_grad.h"

#include "backend/cpu/column_sums.h"
#include "backend/cpu/dense_shape.h"
#include "backend/cpu/families.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/kernel_grad_impl.h"
#include "backend/cpu/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// Positions of dy in a piece, and columns of them: fewer columns, fewer rows around a piece that
// its windows reach.
constexpr int64_t kPieceSteps = 256;
constexpr int64_t kPieceColumns = 64;
// A tile of more fills the second cache alone: its windows lie far apart.
constexpr int64_t kMostTileFloats = 32 << 10;
// With fewer channels a tile has too few chains of sums.
constexpr int64_t kLeastChannels = 3;
constexpr int64_t kLeastFilters = 12;
// A thread's share of channels begins at a multiple.
constexpr int64_t kChannelGrain = 2;
constexpr int64_t kLine = 16;  // floats

constexpr int64_t divided(int64_t count, int64_t by) { return (count + by - 1) / by; }
constexpr int64_t whole_lines(int64_t floats) { return divided(floats, kLine) * kLine; }

// Rows, columns and images of a piece.
struct PieceSize {
  int64_t rows = 1, columns = 1, images = 1;
};

// `most` rows or columns from the output `first` on.
PieceAxis piece_axis(const ops::Window& w, int64_t first, int64_t most) {
  return {.stride = w.stride,
          .dilation = w.dilation,
          .size = w.size,
          .input = w.input,
          .first = w.position(first, 0),
          .count = std::min(most, w.output - first)};
}

int64_t tile_floats(const ops::Conv2dGeometry& g, const PieceSize& size) {
  KernelGradPiece largest;
  largest.rows = piece_axis(g.rows(), 0, size.rows);
  largest.columns = piece_axis(g.columns(), 0, size.columns);
  largest.images = size.images;
  return whole_lines(kMostTileRows * largest.copied());
}

PieceSize piece_size(const ops::Conv2dGeometry& g, int64_t samples) {
  PieceSize size;
  size.columns = divided(g.columns().output, divided(g.columns().output, kPieceColumns));
  const int64_t rows = std::max<int64_t>(kPieceSteps / size.columns, 1);
  size.rows = divided(g.rows().output, divided(g.rows().output, rows));
  if (size.rows == g.rows().output && size.columns == g.columns().output) {
    const int64_t images =
        std::min(kPieceSteps / (size.rows * size.columns), kMostTileFloats / tile_floats(g, size));
    size.images = std::clamp<int64_t>(images, 1, samples);
  }
  return size;
}

class KernelGrad {
 public:
  KernelGrad(const NodeFacts& facts, const ops::Conv2dGeometry& g, const CpuOptions& options)
      : g_(g),
        samples_(facts.samples() * facts.inputs[0].shape[0].count),
        size_(piece_size(g, samples_)),
        panel_(PLIMSOLL_PICK(options.isa, panel_columns)()),
        bias_(facts.outputs.size() > 1),
        bias_sums_(samples_ * g.rows().output * g.columns().output, g.filters, options.isa,
                   options.threads),
        loop_(PLIMSOLL_PICK(options.isa, add_piece)) {
    share_out(options.threads);
  }

  Bytes scratch() const { return Bytes(parts() * part_floats() * int64_t{sizeof(float)}); }

  void run(const KernelCall& call) const noexcept {
    if (call.outputs[0].data != nullptr) {
      for_each_part(parts(), [&](int part) { sum_share(call, part); });
    }
    if (!bias_ || call.outputs[1].data == nullptr) return;
    bias_sums_.run(input_floats(call, 1), output_floats(call, 1), !call.first);
  }

 private:
  int parts() const { return filter_parts_ * channel_parts_; }

  // Threads share out channels, so that each copies its own, and panels of filters where channels
  // are too few.
  void share_out(int threads) {
    const int64_t panels = divided(g_.filters, panel_);
    int64_t channel_parts = std::clamp<int64_t>(g_.channels / kMostTileRows, 1, threads);
    for (int most = 0; channel_parts > 0; --channel_parts) {
      const int64_t filter_parts = std::min(threads / channel_parts, panels);
      if (channel_parts * filter_parts <= most) continue;
      most = static_cast<int>(channel_parts * filter_parts);
      channel_parts_ = static_cast<int>(channel_parts);
      filter_parts_ = static_cast<int>(filter_parts);
    }
    tile_floats_ = tile_floats(g_, size_);
    const int64_t steps = size_.images * size_.rows * size_.columns;
    panel_floats_ = divided(panels, filter_parts_) * panel_ * steps;
  }
  int64_t part_floats() const { return tile_floats_ + panel_floats_; }

  // Rows and columns from there on, of the images from `image` on.
  KernelGradPiece piece(int64_t image, int64_t row, int64_t column) const {
    KernelGradPiece p;
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

  void sum_share(const KernelCall& call, int part) const noexcept {
    const Range channels =
        part_of(g_.channels, kChannelGrain, part / filter_parts_, channel_parts_);
    const Range filters = part_of(g_.filters, panel_, part % filter_parts_, filter_parts_);
    KernelGradShare share;
    share.first_channel = channels.begin;
    share.channels = channels.end - channels.begin;
    share.first_filter = filters.begin;
    share.filters = filters.end - filters.begin;
    share.dw_row = g_.filters;
    share.dw_position = g_.channels * g_.filters;
    share.dw = output_floats(call, 0) + channels.begin * g_.filters + filters.begin;
    share.add = !call.first;
    share.tile = reinterpret_cast<float*>(call.scratch) + part * part_floats();
    share.panels = share.tile + tile_floats_;
    for (int64_t image = 0; image < samples_; image += size_.images) {
      for (int64_t row = 0; row < g_.rows().output; row += size_.rows) {
        for (int64_t column = 0; column < g_.columns().output; column += size_.columns) {
          KernelGradPiece p = piece(image, row, column);
          p.x = input_floats(call, 0) + image * p.x_image;
          p.dy = input_floats(call, 1) + image * p.dy_image + row * p.dy_row + column * p.dy_column;
          loop_(p, share);
          share.add = true;
        }
      }
    }
  }

  ops::Conv2dGeometry g_;
  int64_t samples_;
  PieceSize size_;
  int64_t panel_;  // columns
  bool bias_;
  ColumnSums bias_sums_;
  decltype(&generic::add_piece) loop_;
  int filter_parts_ = 1, channel_parts_ = 1;
  int64_t tile_floats_ = 0, panel_floats_ = 0;
};

}  // namespace

std::optional<ops::Conv2dGeometry> read_kernel_grad(const NodeFacts& facts, Isa isa) {
  if (isa == Isa::kAvx512 || facts.op() != "conv2d_grad_kernel" || !facts.all_float32() ||
      facts.cut_inside_samples()) {
    return std::nullopt;
  }
  const ops::Conv2dGeometry g = ops::conv2d_geometry(facts.op(), facts.types());
  if (g.groups != 1 || g.channels < kLeastChannels || g.filters < kLeastFilters ||
      g.rows().output * g.columns().output == 0 || read_packed_dense(facts, isa)) {
    return std::nullopt;
  }
  if (tile_floats(g, piece_size(g, 1)) > kMostTileFloats) return std::nullopt;
  return g;
}

CpuKernel make_kernel_grad(const NodeFacts& facts, const CpuOptions& options) {
  const auto geometry = read_kernel_grad(facts, options.isa);
  if (!geometry) return {};
  const KernelGrad kernel(facts, *geometry, options);
  return kernel_of([kernel](const KernelCall& call) { kernel.run(call); }, kernel.scratch());
}

}  // namespace plimsoll::backend::cpu
