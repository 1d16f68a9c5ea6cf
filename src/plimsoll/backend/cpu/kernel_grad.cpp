#include "backend/cpu/kernel_grad.h"

#include "backend/cpu/column_sums.h"
#include "backend/cpu/dense_shape.h"
#include "backend/cpu/families.h"
#include "backend/cpu/paired_product.h"
#include "backend/cpu/tiled_product.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/kernel_grad_impl.h"
#include "backend/cpu/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// With fewer channels a tile has too few chains of sums.
constexpr int64_t kLeastChannels = 3;
constexpr int64_t kLeastChannelsWithAvx512 = 8;  // there the vendor's are faster
constexpr int64_t kLeastFilters = 12;
// A thread's share of channels begins at a multiple.
constexpr int64_t kChannelGrain = 2;
constexpr int64_t kLine = 64;  // bytes
// Columns of a piece: fewer, and its windows reach fewer rows around it.
constexpr int64_t kPieceColumns = 64;
// A tile of more fills the second cache alone: its windows lie far apart.
constexpr int64_t kMostTileBytes = 128 << 10;

constexpr int64_t divided(int64_t count, int64_t by) { return (count + by - 1) / by; }
constexpr int64_t whole_lines(int64_t bytes) { return divided(bytes, kLine) * kLine; }

// Sums of float32.
struct Plain {
  using Number = float;
  using Piece = KernelGradPiece<float>;
  // Positions of dy in a piece: a panel of them lies in the first cache.
  static constexpr int64_t kPieceSteps = 256;
  static constexpr int64_t kTileRows = kPlainTileRows;

  explicit Plain(const CpuOptions& options)
      : loop(PLIMSOLL_PICK(options.isa, add_piece)),
        panel(PLIMSOLL_PICK(options.isa, panel_columns)()) {}
  static int64_t tile_numbers(const Piece& p) { return kTileRows * p.copied(); }
  static int64_t steps(const Piece& p) { return p.steps(); }

  decltype(&generic::add_piece) loop;
  int64_t panel;  // columns
};

// Of bfloat16 numbers in pairs.
struct Paired {
  using Number = uint16_t;
  using Piece = KernelGradPiece<uint16_t>;
  // A step takes half the time, and what sums are added to comes from as far.
  static constexpr int64_t kPieceSteps = 512;
  static constexpr int64_t kTileRows = kPairedTileRows;

  explicit Paired(const CpuOptions& options) : loop(pick_paired_piece(options)) {}
  static int64_t tile_numbers(const Piece& p) { return kTileRows * p.paired_row(); }
  static int64_t steps(const Piece& p) { return p.paired_steps(); }

  PairedPieceFunction loop;
  int64_t panel = kPairedColumns;
};

// The same in the processor's tiles.
struct Tiled {
  using Number = uint16_t;
  using Piece = KernelGradPiece<uint16_t>;
  // What sums are added to is what takes time.
  static constexpr int64_t kPieceSteps = 1024;
  static constexpr int64_t kTileRows = kBlockRows;

  explicit Tiled(const CpuOptions& options) : loop(pick_paired_piece(options)) {}
  static int64_t tile_numbers(const Piece& p) { return kTileRows * p.tiled_row(); }
  static int64_t steps(const Piece& p) { return p.tiled_steps(); }

  PairedPieceFunction loop;
  int64_t panel = kPairedColumns;
};

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
  return whole_lines(Family::tile_numbers(largest_piece<Family>(g, size)) * kNumber);
}

template <typename Family>
PieceSize piece_size(const ops::Conv2dGeometry& g, int64_t samples) {
  PieceSize size;
  size.columns = divided(g.columns().output, divided(g.columns().output, kPieceColumns));
  const int64_t rows = std::max<int64_t>(Family::kPieceSteps / size.columns, 1);
  size.rows = divided(g.rows().output, divided(g.rows().output, rows));
  if (size.rows == g.rows().output && size.columns == g.columns().output) {
    const int64_t images = std::min(Family::kPieceSteps / (size.rows * size.columns),
                                    kMostTileBytes / tile_bytes<Family>(g, size));
    size.images = std::clamp<int64_t>(images, 1, samples);
  }
  return size;
}

template <typename Family>
class KernelGrad {
 public:
  KernelGrad(const NodeFacts& facts, const ops::Conv2dGeometry& g, const CpuOptions& options)
      : g_(g),
        samples_(facts.samples() * facts.inputs[0].shape[0].count),
        size_(piece_size<Family>(g, samples_)),
        family_(options),
        bias_(facts.outputs.size() > 1),
        bias_sums_(samples_ * g.rows().output * g.columns().output, g.filters, options.isa,
                   options.threads) {
    share_out(options.threads);
  }

  Bytes scratch() const { return Bytes(parts() * part_bytes()); }

  void run(const KernelCall& call) const noexcept {
    if (call.outputs[0].data != nullptr) {
      for_each_part(parts(), [&](int part) { sum_share(call, part); });
    }
    if (!bias_ || call.outputs[1].data == nullptr) return;
    bias_sums_.run(numbers(call, 1), output_floats(call, 1), !call.first);
  }

 private:
  using Number = typename Family::Number;
  using Piece = typename Family::Piece;

  static const Number* numbers(const KernelCall& call, size_t input) {
    return reinterpret_cast<const Number*>(call.inputs[input].data);
  }
  int parts() const { return filter_parts_ * channel_parts_; }

  // Threads share out channels, so that each copies its own, and panels of filters where channels
  // are too few.
  void share_out(int threads) {
    const int64_t panels = divided(g_.filters, family_.panel);
    int64_t channel_parts = std::clamp<int64_t>(g_.channels / Family::kTileRows, 1, threads);
    for (int most = 0; channel_parts > 0; --channel_parts) {
      const int64_t filter_parts = std::min(threads / channel_parts, panels);
      if (channel_parts * filter_parts <= most) continue;
      most = static_cast<int>(channel_parts * filter_parts);
      channel_parts_ = static_cast<int>(channel_parts);
      filter_parts_ = static_cast<int>(filter_parts);
    }
    tile_bytes_ = tile_bytes<Family>(g_, size_);
    const int64_t steps = Family::steps(largest_piece<Family>(g_, size_));
    panel_bytes_ = whole_lines(divided(panels, filter_parts_) * family_.panel * steps *
                               static_cast<int64_t>(sizeof(Number)));
  }
  int64_t part_bytes() const { return tile_bytes_ + panel_bytes_; }

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

  void sum_share(const KernelCall& call, int part) const noexcept {
    const Range channels =
        part_of(g_.channels, kChannelGrain, part / filter_parts_, channel_parts_);
    const Range filters = part_of(g_.filters, family_.panel, part % filter_parts_, filter_parts_);
    KernelGradShare<Number> share;
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
          p.x = numbers(call, 0) + image * p.x_image;
          p.dy = numbers(call, 1) + image * p.dy_image + row * p.dy_row + column * p.dy_column;
          family_.loop(p, share);
          share.add = true;
        }
      }
    }
  }

  ops::Conv2dGeometry g_;
  int64_t samples_;
  PieceSize size_;
  Family family_;
  bool bias_;
  ColumnSums bias_sums_;
  int filter_parts_ = 1, channel_parts_ = 1;
  int64_t tile_bytes_ = 0, panel_bytes_ = 0;
};

}  // namespace

std::optional<ops::Conv2dGeometry> read_kernel_grad(const NodeFacts& facts,
                                                    const CpuOptions& options) {
  if (facts.op() != "conv2d_grad_kernel" || facts.cut_inside_samples()) return std::nullopt;
  const bool narrow = facts.inputs[0].dtype == DType::kBFloat16;
  if (narrow ? facts.inputs[1].dtype != DType::kBFloat16 || pick_paired_piece(options) == nullptr
             : !facts.all_float32() || (options.isa == Isa::kAvx512 && !kHasVariants)) {
    return std::nullopt;
  }
  const ops::Conv2dGeometry g = ops::conv2d_geometry(facts.op(), facts.types());
  const int64_t least_channels =
      options.isa == Isa::kAvx512 ? kLeastChannelsWithAvx512 : kLeastChannels;
  if (g.groups != 1 || g.channels < least_channels || g.filters < kLeastFilters ||
      g.rows().output * g.columns().output == 0 || read_packed_dense(facts, options)) {
    return std::nullopt;
  }
  const int64_t tile = !narrow         ? tile_bytes<Plain>(g, piece_size<Plain>(g, 1))
                       : options.tiles ? tile_bytes<Tiled>(g, piece_size<Tiled>(g, 1))
                                       : tile_bytes<Paired>(g, piece_size<Paired>(g, 1));
  return tile <= kMostTileBytes ? std::optional(g) : std::nullopt;
}

namespace {

template <typename Family>
CpuKernel make_of(const NodeFacts& facts, const ops::Conv2dGeometry& g, const CpuOptions& options) {
  const KernelGrad<Family> kernel(facts, g, options);
  return kernel_of([kernel](const KernelCall& call) { kernel.run(call); }, kernel.scratch());
}

}  // namespace

CpuKernel make_kernel_grad(const NodeFacts& facts, const CpuOptions& options) {
  const auto geometry = read_kernel_grad(facts, options);
  if (!geometry) return {};
  if (facts.inputs[0].dtype != DType::kBFloat16) return make_of<Plain>(facts, *geometry, options);
  return options.tiles ? make_of<Tiled>(facts, *geometry, options)
                       : make_of<Paired>(facts, *geometry, options);
}

}  // namespace plimsoll::backend::cpu
