#include "backend/cpu/conv/tiled_conv_pool.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/conv/kernel_grad_walk.h"
#include "backend/cpu/families.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {
namespace {

// Fewer do not fill a tile.
constexpr int64_t kLeastChannels = 8;
constexpr int64_t kLeastFilters = 16;
// Bytes of a band of the spread gradient, for the second cache, and the fewest rows that it adds.
constexpr int64_t kBandBytes = 256 << 10;
constexpr int64_t kLeastRows = 4;

// The convolution's result as far as windows cover it.
ops::Conv2dGeometry covered(const ops::Conv2dPoolGeometry& g) {
  ops::Conv2dGeometry conv = g.conv;
  conv.window[0].output = g.rows() * g.pool_rows;
  conv.window[1].output = g.columns() * g.pool_columns;
  return conv;
}

// A node's pooled gradient and its winners.
struct PooledGradient {
  ops::Conv2dPoolGeometry geometry;
  const uint16_t* dy = nullptr;
  const uint8_t* winners = nullptr;

  int64_t row_numbers() const { return geometry.columns() * geometry.conv.filters; }
  // The windows of a pooled row, counted through all images, and those of a row of the result.
  SpreadRow windows(int64_t pooled_row, int64_t first_filter, int64_t filters) const {
    SpreadRow row;
    row.dy = dy + pooled_row * row_numbers() + first_filter;
    row.winners = winners + pooled_row * row_numbers() + first_filter;
    row.windows = geometry.columns();
    row.all_filters = geometry.conv.filters;
    row.filters = filters;
    row.pool_columns = geometry.pool_columns;
    return row;
  }
  SpreadRow row(int64_t image, int64_t at, int64_t first_filter, int64_t filters) const {
    SpreadRow row =
        windows(image * geometry.rows() + at / geometry.pool_rows, first_filter, filters);
    row.first_tap = at % geometry.pool_rows * geometry.pool_columns;
    return row;
  }
};

// --- kernel

class TiledKernelGradient {
 public:
  TiledKernelGradient(const NodeFacts& facts, const ops::Conv2dPoolGeometry& g,
                      const CpuOptions& options)
      : geometry_(g),
        loops_(tiled_pool_loops(options)),
        walk_(covered(g), facts.samples() * facts.inputs[0].shape[0].count,
              {g.pool_rows, g.pool_columns}, options),
        use_bias_(facts.outputs.size() > 1) {
    const PieceSize& size = walk_.size();
    spread_bytes_ =
        round_up_to_line(size.images * size.rows * size.columns * walk_.most_filters() * 2);
  }

  Bytes scratch() const { return Bytes(walk_.parts() * (walk_.part_bytes() + spread_bytes_)); }

  void run(const KernelCall& call) const noexcept {
    const PooledGradient gradient = {geometry_,
                                     reinterpret_cast<const uint16_t*>(call.inputs[1].data),
                                     reinterpret_cast<const uint8_t*>(call.inputs[2].data)};
    for_each_part(walk_.parts(), [&](int part) {
      if (call.outputs[0].data != nullptr) sum_share(call, gradient, part);
      if (use_bias_ && call.outputs[1].data != nullptr && walk_.leads(part)) {
        sum_bias(call, gradient, walk_.filters_of(part));
      }
    });
  }

 private:
  void sum_share(const KernelCall& call, const PooledGradient& gradient, int part) const noexcept {
    auto* spread = reinterpret_cast<uint16_t*>(call.scratch + walk_.parts() * walk_.part_bytes() +
                                               part * spread_bytes_);
    const Range filters = walk_.filters_of(part);
    walk_.sum_share(call, part, [&](auto& piece, auto& share, const PiecePlace& at) {
      piece.dy_column = filters.end - filters.begin;
      piece.dy_row = piece.columns.count * piece.dy_column;
      piece.dy_image = piece.rows.count * piece.dy_row;
      piece.dy = spread;
      share.first_filter = 0;
      for (int64_t image = 0; image < piece.images; ++image) {
        for (int64_t r = 0; r < piece.rows.count; ++r) {
          SpreadRow row =
              gradient.row(at.image + image, at.row + r, filters.begin, piece.dy_column);
          const int64_t skipped = at.column / geometry_.pool_columns * row.all_filters;
          row.dy += skipped;
          row.winners += skipped;
          row.windows = piece.columns.count / geometry_.pool_columns;
          row.to = spread + image * piece.dy_image + r * piece.dy_row;
          row.to_position = piece.dy_column;
          loops_->spread_row(row);
        }
      }
    });
  }

  void sum_bias(const KernelCall& call, const PooledGradient& gradient,
                Range filters) const noexcept {
    float* sums = output_floats(call, 1) + filters.begin;
    const int64_t count = filters.end - filters.begin;
    if (call.first) std::fill(sums, sums + count, 0.0f);
    for (int64_t row = 0; row < walk_.samples() * geometry_.rows(); ++row) {
      SpreadRow windows = gradient.windows(row, filters.begin, count);
      windows.first_tap = geometry_.taps();  // those below it pass
      loops_->add_bias(windows, sums);
    }
  }

  ops::Conv2dPoolGeometry geometry_;
  const TiledPoolLoops* loops_;
  KernelGradWalk<Tiled> walk_;
  bool use_bias_;
  int64_t spread_bytes_ = 0;
};

// --- source

class TiledSourceGradient {
 public:
  TiledSourceGradient(const NodeFacts& facts, const ops::Conv2dPoolGeometry& g,
                      const CpuOptions& options)
      : geometry_(g),
        loops_(tiled_pool_loops(options)),
        images_(facts.samples() * facts.inputs[0].shape[0].count) {
    const ops::Window& rows = g.conv.rows();
    const ops::Window& columns = g.conv.columns();
    shape_.columns = columns.input;
    shape_.channels = g.conv.channels;
    shape_.kernel_rows = rows.size;
    shape_.kernel_columns = columns.size;
    shape_.filters = ceil_div(g.conv.filters, kBlockSteps) * kBlockSteps;
    shape_.dx_row = columns.input * shape_.channels;
    shape_.band_row = (columns.input + columns.size - 1) * shape_.filters;
    shape_.rows = std::clamp<int64_t>(kBandBytes / (shape_.band_row * 2) - (rows.size - 1),
                                      kLeastRows, std::max(kLeastRows, rows.input));
    panel_bytes_ = round_up_to_line(tiled_panel_bytes(shape_));
    // A last block of positions reads after the last row.
    const int64_t band = (shape_.rows + rows.size - 1) * shape_.band_row;
    band_bytes_ = round_up_to_line((band + kBlockRows * shape_.filters) * 2);
    parts_ = static_cast<int>(std::min<int64_t>(options.parts, images_ * rows.input));
  }

  Bytes scratch() const { return Bytes(panel_bytes_ + parts_ * band_bytes_); }

  void run(const KernelCall& call) const noexcept {
    loops_->pack_kernel(shape_, reinterpret_cast<const uint16_t*>(call.inputs[2].data),
                        geometry_.conv.filters, call.scratch);
    const PooledGradient gradient = {geometry_,
                                     reinterpret_cast<const uint16_t*>(call.inputs[0].data),
                                     reinterpret_cast<const uint8_t*>(call.inputs[1].data)};
    const int64_t image_rows = geometry_.conv.rows().input;
    for_each_part(parts_, [&](int part) {
      std::byte* band = call.scratch + panel_bytes_ + part * band_bytes_;
      std::memset(band, 0, static_cast<size_t>(band_bytes_));
      const Range rows = part_of(images_ * image_rows, 1, part, parts_);
      for (int64_t row = rows.begin; row < rows.end;) {
        const int64_t image = row / image_rows;
        const int64_t first = row - image * image_rows;
        const int64_t count = std::min({shape_.rows, image_rows - first, rows.end - row});
        compute(call, gradient, image, {first, first + count}, reinterpret_cast<uint16_t*>(band));
        row += count;
      }
    });
  }

 private:
  // Rows of an image of dx.
  void compute(const KernelCall& call, const PooledGradient& gradient, int64_t image, Range rows,
               uint16_t* band) const noexcept {
    fill_band(gradient, image, rows, band);
    TiledSource s = shape_;
    s.rows = rows.end - rows.begin;
    s.band = band;
    s.panels = call.scratch;
    s.dx = reinterpret_cast<uint16_t*>(call.outputs[0].data) +
           (image * geometry_.conv.rows().input + rows.begin) * s.dx_row;
    loops_->source_gradient(s);
  }

  // Its padding stays zero.
  void fill_band(const PooledGradient& gradient, int64_t image, Range rows,
                 uint16_t* band) const noexcept {
    const int64_t covered_rows = geometry_.rows() * geometry_.pool_rows;
    // What dx's first row reads through the kernel's last.
    const int64_t top = rows.begin + geometry_.conv.rows().before - (shape_.kernel_rows - 1);
    const int64_t left = shape_.kernel_columns - 1 - geometry_.conv.columns().before;
    const int64_t count = rows.end - rows.begin + shape_.kernel_rows - 1;
    for (int64_t r = 0; r < count; ++r) {
      uint16_t* to = band + r * shape_.band_row + left * shape_.filters;
      if (top + r < 0 || top + r >= covered_rows) {
        const int64_t columns = geometry_.columns() * geometry_.pool_columns;
        std::memset(to, 0, static_cast<size_t>(columns * shape_.filters) * sizeof(uint16_t));
        continue;
      }
      SpreadRow row = gradient.row(image, top + r, 0, geometry_.conv.filters);
      row.to = to;
      row.to_position = shape_.filters;
      loops_->spread_row(row);
    }
  }

  ops::Conv2dPoolGeometry geometry_;
  const TiledPoolLoops* loops_;
  int64_t images_;
  TiledSource shape_;
  int64_t panel_bytes_ = 0;
  int64_t band_bytes_ = 0;  // of a part
  int parts_ = 1;
};

bool fits_tiles(const ops::Conv2dPoolGeometry& g, bool to_kernel) {
  if (g.rows() == 0 || g.columns() == 0) return false;
  if (g.conv.groups != 1 || g.conv.channels < kLeastChannels || g.conv.filters < kLeastFilters) {
    return false;
  }
  if (to_kernel) {
    return fits_cache<Tiled>(covered(g), {g.pool_rows, g.pool_columns});
  }
  // The spread gradient's columns lie inside of a band's.
  const auto inside = [](const ops::Window& w) {
    return w.stride == 1 && w.dilation == 1 && w.before < w.size && w.after < w.size;
  };
  return inside(g.conv.rows()) && inside(g.conv.columns());
}

}  // namespace

CpuKernel make_tiled_conv_pool(const NodeFacts& facts, const CpuOptions& options) {
  constexpr OpFamily kFamily = OpFamily::kConvolution;
  const bool to_kernel = facts.computes(kFamily, OpPass::kGradKernel, OpFusion::kPool);
  if (!to_kernel && !facts.computes(kFamily, OpPass::kGradInput, OpFusion::kPool)) return {};
  if (tiled_pool_loops(options) == nullptr || facts.inputs[0].dtype != DType::kBFloat16) return {};
  const ops::Conv2dPoolGeometry g = ops::conv2d_pool_geometry(facts.op(), facts.types());
  if (!fits_tiles(g, to_kernel)) return {};
  if (to_kernel) {
    const TiledKernelGradient kernel(facts, g, options);
    return kernel_of([kernel](const KernelCall& call) { kernel.run(call); }, kernel.scratch());
  }
  const TiledSourceGradient kernel(facts, g, options);
  return kernel_of([kernel](const KernelCall& call) { kernel.run(call); }, kernel.scratch());
}

}  // namespace plimsoll::backend::cpu
