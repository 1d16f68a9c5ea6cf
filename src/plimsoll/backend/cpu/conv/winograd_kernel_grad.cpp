// The gradient of a convolution's kernel by Winograd's products (winograd.h).
//
// The tiles of all images come in chunks. Of a chunk, tiles of dy are transformed for a slab of
// filters, then tiles of the source for a block of channels at a time; each of the 16 products of
// block and panel goes over the chunk's tiles in registers, and what they make is transformed back
// and added to the gradient.
//
//   panels of dy   [panel][product][tile][filter of the panel]
//   source         [product][tile][channel of the block]
//   sums           [product][channel of the block][filter of the panel]
//
// An element is the sum of its chunks in order, each one chain of multiply-adds for each product.
// How many tiles make a chunk follows from the call's shape: nothing depends on threads, which
// share out channels and filters and never wait for each other. Both transforms are done again by
// each thread that reads them.

#include <algorithm>
#include <cstdint>

#include "backend/cpu/conv/kernel_grad_walk.h"
#include "backend/cpu/conv/winograd_chunk.h"
#include "backend/cpu/families.h"
#include "backend/cpu/product/column_sums.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {
namespace {

// Planes a power of two apart would share places in the cache.
constexpr int64_t kPlaneGap = WinogradScratch::kLine;
// Whole tiles of sums, whole vectors.
constexpr int64_t kBlockChannels = 48;

// What a thread adds to the kernel's gradient at once.
struct WinogradGradChunk {
  const float* x = nullptr;  // of the first image
  const float* dy = nullptr;
  float* dw = nullptr;
  int64_t first_tile = 0, tiles = 0;  // counted through all images
  int64_t first_channel = 0, channels = 0;
  int64_t first_filter = 0, filters = 0;
  bool add = false;
  float* panels = nullptr;  // scratch, as above
  float* source = nullptr;
  float* sums = nullptr;
};

}  // namespace
}  // namespace plimsoll::backend::cpu

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/conv/winograd_kernel_grad_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// A slab of more saves little of transforming the source again for each.
constexpr int64_t kSlabFilters = 128;
// Transformed tiles of a chunk: of more, the gradient is added to more rarely.
constexpr int64_t kChunkBytes = 3 << 19;
constexpr int64_t kMostTiles = 128;
// A thread's share of channels begins at a multiple.
constexpr int64_t kChannelGrain = 4;
// Transforming a channel or a filter takes as long as so many of them in the products.
constexpr int64_t kTransform = 4;

constexpr int64_t floats_of(int64_t tiles, int64_t columns) {
  return kWinogradProducts * (tiles * columns + kPlaneGap);
}

// A function of the call's shape.
int64_t chunk_tiles(const WinogradImages& g, int64_t all_tiles) {
  const int64_t channels = std::min(round_up(g.channels, 16), kBlockChannels);
  const int64_t filters = std::min(round_up(g.filters, 32), kSlabFilters);
  const int64_t tile_bytes =
      kWinogradProducts * (channels + filters) * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::min(kChunkBytes / tile_bytes, kMostTiles);
  return ceil_div(all_tiles, std::max<int64_t>(ceil_div(all_tiles, most), 1));
}

class WinogradKernelGrad {
 public:
  WinogradKernelGrad(const NodeFacts& facts, const CpuOptions& options)
      : images_(winograd_images(facts)),
        samples_(facts.samples() * facts.inputs[0].shape[0].count),
        all_tiles_(samples_ * images_.tiles()),
        tiles_(chunk_tiles(images_, all_tiles_)),
        loop_(PLIMSOLL_PICK(options.isa, add_winograd_chunk)),
        panel_(PLIMSOLL_PICK(options.isa, winograd_grad_panel)()),
        bias_(facts.outputs.size() > 1),
        bias_sums_(samples_ * images_.rows * images_.columns, images_.filters, options.isa,
                   options.parts) {
    share_out(options.parts);
  }

  Bytes scratch() const {
    return Bytes(filter_parts_ * channel_parts_ * part_floats() *
                 static_cast<int64_t>(sizeof(float)));
  }

  void run(const KernelCall& call) const noexcept {
    if (call.outputs[0].data != nullptr) {
      for_each_part(filter_parts_ * channel_parts_, [&](int part) { sum_share(call, part); });
    }
    if (!bias_ || call.outputs[1].data == nullptr) return;
    bias_sums_.run(input_floats(call, 1), output_floats(call, 1), !call.first);
  }

 private:
  int64_t most_channels() const {
    return share_of(images_.channels, kChannelGrain, channel_parts_);
  }
  int64_t most_filters() const { return share_of(images_.filters, panel_, filter_parts_); }
  static int64_t share_of(int64_t count, int64_t grain, int64_t parts) {
    return ceil_div(ceil_div(count, grain), parts) * grain;
  }
  // Filters of a share's slabs, of about as many panels.
  int64_t slab_of(int64_t filters) const {
    return share_of(filters, panel_, ceil_div(filters, kSlabFilters));
  }

  // What a share takes of a tile, in multiplications of a product.
  int64_t work_of(int64_t channels, int64_t filters) const {
    const int64_t slabs = ceil_div(filters, slab_of(filters));
    return channels * filters + kTransform * (round_up(channels, panel_ / 2) * slabs + filters);
  }

  void share_out(int parts) {
    int64_t least = 0;
    const int64_t most_parts = std::min<int64_t>(parts, ceil_div(images_.channels, kChannelGrain));
    for (int64_t channel_parts = 1; channel_parts <= most_parts; ++channel_parts) {
      const int64_t filter_parts =
          std::min(parts / channel_parts, ceil_div(images_.filters, panel_));
      const int64_t work = work_of(share_of(images_.channels, kChannelGrain, channel_parts),
                                   share_of(images_.filters, panel_, filter_parts));
      if (least != 0 && work >= least) continue;
      least = work;
      channel_parts_ = static_cast<int>(channel_parts);
      filter_parts_ = static_cast<int>(filter_parts);
    }
  }

  // Scratch of a part, each in whole lines.
  int64_t block() const {
    return std::min(round_up(most_channels(), WinogradScratch::kLine), kBlockChannels);
  }
  int64_t panels_floats() const {
    return slab_of(most_filters()) / panel_ * floats_of(tiles_, panel_);
  }
  int64_t source_floats() const { return floats_of(tiles_, block()); }
  int64_t part_floats() const {
    return panels_floats() + source_floats() + floats_of(block(), panel_);
  }

  void sum_share(const KernelCall& call, int part) const noexcept {
    const Range channels =
        part_of(images_.channels, kChannelGrain, part / filter_parts_, channel_parts_);
    const Range filters = part_of(images_.filters, panel_, part % filter_parts_, filter_parts_);
    WinogradGradChunk chunk;
    chunk.x = input_floats(call, 0);
    chunk.dy = input_floats(call, 1);
    chunk.dw = output_floats(call, 0);
    chunk.first_channel = channels.begin;
    chunk.channels = channels.end - channels.begin;
    chunk.panels = reinterpret_cast<float*>(call.scratch) + part * part_floats();
    chunk.source = chunk.panels + panels_floats();
    chunk.sums = chunk.source + source_floats();
    const int64_t slab = slab_of(most_filters());
    for (int64_t f = filters.begin; f < filters.end; f += slab) {
      chunk.first_filter = f;
      chunk.filters = std::min(slab, filters.end - f);
      chunk.add = !call.first;
      for (int64_t tile = 0; tile < all_tiles_; tile += tiles_) {
        chunk.first_tile = tile;
        chunk.tiles = std::min(tiles_, all_tiles_ - tile);
        loop_(images_, chunk);
        chunk.add = true;
      }
    }
  }

  WinogradImages images_;
  int64_t samples_;
  int64_t all_tiles_;
  int64_t tiles_;  // of a chunk
  decltype(&generic::add_winograd_chunk) loop_;
  int64_t panel_;
  int filter_parts_ = 1, channel_parts_ = 1;
  bool bias_;
  ColumnSums bias_sums_;
};

}  // namespace

CpuKernel make_winograd_kernel_grad(const NodeFacts& facts, const CpuOptions& options) {
  if (!facts.computes(OpFamily::kConvolution, OpPass::kGradKernel)) return {};
  if (!is_winograd_node(facts, options)) return {};
  const WinogradKernelGrad kernel(facts, options);
  return kernel_of([kernel](const KernelCall& call) { kernel.run(call); }, kernel.scratch());
}

}  // namespace plimsoll::backend::cpu
