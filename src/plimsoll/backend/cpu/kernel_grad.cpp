#include "backend/cpu/kernel_grad.h"

#include "backend/cpu/column_sums.h"
#include "backend/cpu/dense_shape.h"
#include "backend/cpu/families.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/kernel_grad_impl.h"
#include "backend/cpu/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kMostTileRows = 6;
// Positions of dy in a piece, and columns of them: fewer columns, fewer rows around a piece that
// its windows reach.
constexpr int64_t kPieceSteps = 256;
constexpr int64_t kPieceColumns = 64;
// With fewer channels a tile has too few chains of sums.
constexpr int64_t kLeastChannels = 3;
constexpr int64_t kLeastFilters = 12;
// A thread's share of channels begins at a multiple.
constexpr int64_t kChannelGrain = 2;
constexpr int64_t kLine = 16;  // floats

constexpr int64_t divided(int64_t count, int64_t by) { return (count + by - 1) / by; }
constexpr int64_t whole_lines(int64_t floats) { return divided(floats, kLine) * kLine; }

class KernelGrad {
 public:
  KernelGrad(const NodeFacts& facts, const ops::Conv2dGeometry& g, const CpuOptions& options)
      : g_(g),
        samples_(facts.samples() * facts.inputs[0].shape[0].count),
        panel_(2 * lanes_of(options.isa)),
        bias_(facts.outputs.size() > 1),
        bias_sums_(samples_ * g.rows().output * g.columns().output, g.filters, options.isa,
                   options.threads),
        loop_(PLIMSOLL_PICK(options.isa, add_piece)) {
    columns_ = divided(g.columns().output, divided(g.columns().output, kPieceColumns));
    const int64_t rows = std::max<int64_t>(kPieceSteps / columns_, 1);
    rows_ = divided(g.rows().output, divided(g.rows().output, rows));
    const bool whole = rows_ == g.rows().output && columns_ == g.columns().output;
    images_ = whole ? std::clamp<int64_t>(kPieceSteps / (rows_ * columns_), 1, samples_) : 1;
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
    channel_parts_ = static_cast<int>(
        std::clamp<int64_t>(g_.channels / kMostTileRows, 1, threads));
    while (threads % channel_parts_ != 0) --channel_parts_;
    filter_parts_ = static_cast<int>(
        std::min<int64_t>(threads / channel_parts_, divided(g_.filters, panel_)));
    KernelGradPiece largest = piece(0, 0, 0);
    tile_floats_ = whole_lines(kMostTileRows * largest.copied());
    const int64_t panels = divided(divided(g_.filters, panel_), filter_parts_);
    panel_floats_ = panels * panel_ * largest.steps();
  }
  int64_t part_floats() const { return tile_floats_ + panel_floats_; }

  // Rows and columns from there on, of the images from `image` on.
  KernelGradPiece piece(int64_t image, int64_t row, int64_t column) const {
    const auto axis = [](const ops::Window& w, int64_t first, int64_t most) {
      return PieceAxis{.stride = w.stride,
                       .dilation = w.dilation,
                       .size = w.size,
                       .input = w.input,
                       .first = w.position(first, 0),
                       .count = std::min(most, w.output - first)};
    };
    KernelGradPiece p;
    p.rows = axis(g_.rows(), row, rows_);
    p.columns = axis(g_.columns(), column, columns_);
    p.images = std::min(images_, samples_ - image);
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
    for (int64_t image = 0; image < samples_; image += images_) {
      for (int64_t row = 0; row < g_.rows().output; row += rows_) {
        for (int64_t column = 0; column < g_.columns().output; column += columns_) {
          KernelGradPiece p = piece(image, row, column);
          p.x = input_floats(call, 0) + image * p.x_image;
          p.dy = input_floats(call, 1) + image * p.dy_image + row * p.dy_row +
                 column * p.dy_column;
          loop_(p, share);
          share.add = true;
        }
      }
    }
  }

  ops::Conv2dGeometry g_;
  int64_t samples_;
  int64_t panel_;
  bool bias_;
  ColumnSums bias_sums_;
  decltype(&generic::add_piece) loop_;
  int64_t rows_ = 1, columns_ = 1, images_ = 1;  // of a piece
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
  return g;
}

CpuKernel make_kernel_grad(const NodeFacts& facts, const CpuOptions& options) {
  const auto geometry = read_kernel_grad(facts, options.isa);
  if (!geometry) return {};
  const KernelGrad kernel(facts, *geometry, options);
  return kernel_of([kernel](const KernelCall& call) { kernel.run(call); }, kernel.scratch());
}

}  // namespace plimsoll::backend::cpu
