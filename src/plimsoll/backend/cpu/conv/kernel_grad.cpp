#include "backend/cpu/conv/kernel_grad.h"

#include "backend/cpu/conv/kernel_grad_walk.h"
#include "backend/cpu/families.h"
#include "backend/cpu/product/column_sums.h"
#include "backend/cpu/product/dense_shape.h"
#include "backend/cpu/product/paired_product.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/conv/kernel_grad_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// With fewer channels a tile has too few chains of sums.
constexpr int64_t kLeastChannels = 3;
constexpr int64_t kLeastChannelsWithAvx512 = 8;  // there the vendor's are faster
constexpr int64_t kLeastFilters = 12;

// A tile of more fills the second cache alone: its windows lie far apart.
constexpr int64_t kMostVectorTileBytes = 128 << 10;

// Sums of float32.
struct Plain {
  using Number = float;
  using Piece = KernelGradPiece<float>;
  // Positions of dy in a piece: a panel of them lies in the first cache.
  static int64_t piece_steps(const ops::Conv2dGeometry&) { return 256; }
  static constexpr int64_t kTileRows = kPlainTileRows;
  static constexpr int64_t kMostTileBytes = kMostVectorTileBytes;

  explicit Plain(const CpuOptions& options)
      : loop(PLIMSOLL_PICK(options.isa, add_piece)),
        panel(PLIMSOLL_PICK(options.isa, panel_columns)()) {}
  static int64_t tile_numbers(const Piece& p) { return kTileRows * p.copied(); }
  static int64_t steps(const Piece& p) { return p.steps(); }

  decltype(&generic::add_piece) loop;
  int64_t panel;  // columns
};

// Multiplies bfloat16 numbers in pairs.
struct Paired {
  using Number = uint16_t;
  using Piece = KernelGradPiece<uint16_t>;
  // A step takes half the time, and what sums are added to comes from as far.
  static int64_t piece_steps(const ops::Conv2dGeometry&) { return 512; }
  static constexpr int64_t kTileRows = kPairedTileRows;
  static constexpr int64_t kMostTileBytes = kMostVectorTileBytes;

  explicit Paired(const CpuOptions& options) : loop(pick_paired_piece(options)) {}
  static int64_t tile_numbers(const Piece& p) { return kTileRows * p.paired_row(); }
  static int64_t steps(const Piece& p) { return p.paired_steps(); }

  PairedPieceFunction loop;
  int64_t panel = kPairedColumns;
};

template <typename Family>
class KernelGrad {
 public:
  KernelGrad(const NodeFacts& facts, const ops::Conv2dGeometry& g, const CpuOptions& options)
      : walk_(g, facts.samples() * facts.inputs[0].shape[0].count, {}, options),
        bias_(facts.outputs.size() > 1),
        bias_sums_(walk_.samples() * g.rows().output * g.columns().output, g.filters, options.isa,
                   options.parts) {}

  Bytes scratch() const { return Bytes(walk_.parts() * walk_.part_bytes()); }

  void run(const KernelCall& call) const noexcept {
    const auto* dy = reinterpret_cast<const Number*>(call.inputs[1].data);
    if (call.outputs[0].data != nullptr) {
      for_each_part(walk_.parts(), [&](int part) {
        walk_.sum_share(
            call, part,
            [&](typename Family::Piece& p, KernelGradShare<Number>&, const PiecePlace& at) {
              p.dy = dy + at.image * p.dy_image + at.row * p.dy_row + at.column * p.dy_column;
            });
      });
    }
    if (!bias_ || call.outputs[1].data == nullptr) return;
    bias_sums_.run(dy, output_floats(call, 1), !call.first);
  }

 private:
  using Number = typename Family::Number;

  KernelGradWalk<Family> walk_;
  bool bias_;
  ColumnSums bias_sums_;
};

// Steps of sequences are rows of one column; as columns of one row they are gone along at once.
ops::Conv2dGeometry along_columns(ops::Conv2dGeometry g) {
  if (g.columns() == ops::kOnePosition) std::swap(g.window[0], g.window[1]);
  return g;
}

}  // namespace

std::optional<ops::Conv2dGeometry> read_kernel_grad(const NodeFacts& facts,
                                                    const CpuOptions& options) {
  if (!facts.computes(OpFamily::kConvolution, OpPass::kGradKernel)) return std::nullopt;
  if (facts.cut_inside_samples() || !ops::convolves_images(facts.types())) return std::nullopt;
  const bool bf16 = facts.inputs[0].dtype == DType::kBFloat16;
  if (bf16 ? facts.inputs[1].dtype != DType::kBFloat16 || pick_paired_piece(options) == nullptr
           : !facts.all_float32() || (options.isa == Isa::kAvx512 && !kHasVariants)) {
    return std::nullopt;
  }
  const ops::Conv2dGeometry g = along_columns(ops::conv2d_geometry(facts.op(), facts.types()));
  const int64_t least_channels =
      options.isa == Isa::kAvx512 && !options.alone ? kLeastChannelsWithAvx512 : kLeastChannels;
  if (g.groups != 1 || g.channels < least_channels || g.filters < kLeastFilters ||
      g.rows().output * g.columns().output == 0 || read_packed_dense(facts, options)) {
    return std::nullopt;
  }
  const bool fits = !bf16           ? fits_cache<Plain>(g, {})
                    : options.tiles ? fits_cache<Tiled>(g, {})
                                    : fits_cache<Paired>(g, {});
  return fits ? std::optional(g) : std::nullopt;
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
