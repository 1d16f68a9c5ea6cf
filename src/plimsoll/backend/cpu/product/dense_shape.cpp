#include "backend/cpu/product/dense_shape.h"

#include <algorithm>

#include "backend/cpu/families.h"
#include "backend/cpu/product/few_rows.h"
#include "backend/cpu/product/paired_product.h"
#include "backend/cpu/product/small_gradient.h"
#include "base/error.h"
#include "ops/image/conv2d.h"

namespace plimsoll::backend::cpu {
namespace {

// What it computes where it is a plain product of that family.
std::optional<DenseKind> kind_of(const graph::OpWork& work, OpFamily family) {
  if (work.family != family || work.fusion != OpFusion::kNone) return std::nullopt;
  switch (work.pass) {
    case OpPass::kForward:
      return DenseKind::kForward;
    case OpPass::kGradInput:
      return DenseKind::kGradInput;
    case OpPass::kGradKernel:
      return DenseKind::kGradKernel;
    case OpPass::kGradients:
      break;
  }
  return std::nullopt;
}

void read_attributes(const NodeFacts& facts, DenseShape& d) {
  d.bias = facts.attributes.get_bool("use_bias", false) && d.kind != DenseKind::kGradInput;
  d.relu = d.kind == DenseKind::kForward &&
           facts.attributes.get_string("activation", "linear") == "relu";
}

// No position is padding.
bool is_point(const ops::Window& w) {
  return w.size == 1 && w.before == 0 && (w.output - 1) * w.stride < w.input;
}
bool keeps_positions(const ops::Window& w) { return w.stride == 1 && w.output == w.input; }

SpreadPositions spread_positions(const ops::ConvGeometry& g) {
  return {.rows = g.rows().output,
          .columns = g.columns().output,
          .row_stride = g.rows().stride,
          .column_stride = g.columns().stride,
          .source_rows = g.rows().input,
          .source_columns = g.columns().input};
}

}  // namespace

int64_t row_stride(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  for (size_t i = dims.size() - 1; i-- > 0;) {
    if (dims[i] != 1) return strides[i];
  }
  return dims.back();
}

std::optional<DenseShape> read_dense_shape(const NodeFacts& facts) {
  const std::optional<DenseKind> kind = kind_of(facts.work(), OpFamily::kDense);
  if (!kind) return std::nullopt;
  DenseShape d;
  d.kind = *kind;
  const graph::ValueType& x = d.kind == DenseKind::kGradInput ? facts.outputs[0] : facts.inputs[0];
  const graph::ValueType& y = d.kind == DenseKind::kForward     ? facts.outputs[0]
                              : d.kind == DenseKind::kGradInput ? facts.inputs[0]
                                                                : facts.inputs[1];
  d.bf16 = x.dtype == DType::kBFloat16;
  if (d.bf16 ? facts.inputs[1].dtype == DType::kOpaque : !facts.all_float32()) {
    return std::nullopt;
  }
  const int axis = graph::find_axis(facts.axes, "units");
  PLIMSOLL_CHECK(axis >= 0, "a dense layer without an axis of units");
  d.units = facts.extents[static_cast<size_t>(axis)];
  d.all_units = y.shape[y.shape.rank() - 1].count;
  d.inner = x.shape[x.shape.rank() - 1].count;
  d.rows = facts.samples() * x.shape.elements_per_sample() / d.inner;
  read_attributes(facts, d);
  return d;
}

std::optional<DenseShape> read_point_convolution(const NodeFacts& facts) {
  const std::optional<DenseKind> kind = kind_of(facts.work(), OpFamily::kConvolution);
  if (!kind) return std::nullopt;
  DenseShape d;
  d.kind = *kind;
  d.bf16 = facts.inputs[0].dtype == DType::kBFloat16;
  if (d.bf16 ? facts.inputs[1].dtype != DType::kBFloat16 : !facts.all_float32()) {
    return std::nullopt;
  }
  if (facts.cut_inside_samples()) return std::nullopt;
  const ops::ConvGeometry g = ops::conv_geometry(facts.op(), facts.types());
  if (g.groups != 1 || !std::ranges::all_of(g.window, is_point)) return std::nullopt;
  if (!std::ranges::all_of(g.window, keeps_positions)) {
    if (d.kind != DenseKind::kGradInput || !ops::convolves_images(facts.types()))
      return std::nullopt;
    d.spread = spread_positions(g);
  }
  d.rows = facts.samples() * facts.inputs[0].shape[0].count * g.window.outputs();
  d.inner = g.channels;
  d.units = d.all_units = g.filters;
  read_attributes(facts, d);
  return d;
}

std::optional<DenseShape> read_packed_dense(const NodeFacts& facts, const CpuOptions& options) {
  const auto dense = read_dense_shape(facts);
  auto d = dense ? dense : read_point_convolution(facts);
  if (!d) return std::nullopt;
  const bool few = !d->cut() && d->units <= most_units(options.isa);
  const bool vectors = kHasVariants || options.isa != Isa::kAvx512 || options.alone;
  if (vectors && !dense && is_small_gradient(*d)) d->loops = DenseLoops::kSmallGradient;
  if (vectors && !few && is_few_rows(*d)) d->loops = DenseLoops::kFewRows;
  if (d->loops != DenseLoops::kPacked) return d;
  if (few && (dense || !options.alone)) return std::nullopt;
  // With AVX-512 the vendor's are as fast, but for gradients to weights, those through strides, and
  // pairs of dense layers.
  const bool pairs = pick_paired_multiply(options) != nullptr;
  const bool gradient =
      kHasVariants && ((d->kind == DenseKind::kGradKernel && !dense) || d->spread);
  const bool ours = d->bf16 ? pairs && (dense || gradient || options.alone)
                            : options.isa != Isa::kAvx512 || gradient || options.alone;
  return ours ? d : std::nullopt;
}

}  // namespace plimsoll::backend::cpu
