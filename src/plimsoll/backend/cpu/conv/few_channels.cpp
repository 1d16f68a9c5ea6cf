#include "backend/cpu/conv/few_channels.h"

#include "backend/cpu/conv/conv_pool_bands.h"
#include "backend/cpu/families.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/conv/few_channels_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// The most numbers of one filter; above that the vendor's blocked weights are faster.
constexpr int64_t kMostNumbers = 75;

class PooledForward {
 public:
  PooledForward(const NodeFacts& facts, const CpuOptions& options)
      : p_(facts, options),
        relu_(p_.geometry.relu),
        bias_(facts.inputs.size() > 2),
        copies_(p_.has_border()),
        parts_(static_cast<int>(std::min<int64_t>(p_.most_parts, p_.samples * p_.geometry.rows()))),
        loop_(PLIMSOLL_PICK(options.isa, pool_few_channels)) {}

  Bytes scratch() const { return Bytes(copies_ ? parts_ * p_.band_numbers() * kFloat : 0); }

  void run(const KernelCall& call) const noexcept {
    for_each_part(parts_, [&](int part) {
      const Range rows = part_of(p_.samples * p_.geometry.rows(), 1, part, parts_);
      float* band =
          copies_ ? reinterpret_cast<float*>(call.scratch) + part * p_.band_numbers() : nullptr;
      if (copies_) std::fill(band, band + p_.band_numbers(), 0.0f);
      for (int64_t row = rows.begin; row < rows.end; ++row) pool_row(call, row, band);
    });
  }

 private:
  void pool_row(const KernelCall& call, int64_t row, float* band) const noexcept {
    const float* image =
        input_floats(call, 0) + row / p_.geometry.rows() * p_.source_rows() * p_.source_row();
    const int64_t top = p_.top(row % p_.geometry.rows());
    if (copies_) p_.fill_band(image, top, band);
    float* y =
        call.outputs[0].data == nullptr ? nullptr : output_floats(call, 0) + row * p_.pooled_row();
    auto* winners = reinterpret_cast<uint8_t*>(call.outputs[1].data);
    loop_(p_.shape, relu_, copies_ ? band : image + top * p_.source_row(),
          copies_ ? p_.band_row() : p_.source_row(), input_floats(call, 1),
          bias_ ? input_floats(call, 2) : nullptr, p_.geometry.columns(), y,
          winners == nullptr ? nullptr : winners + row * p_.pooled_row());
  }

  PooledBands p_;
  bool relu_;
  bool bias_;
  bool copies_;
  int parts_;
  decltype(&generic::pool_few_channels) loop_;
};

}  // namespace

FewChannelsLoop few_channels_loop(const PatchShape& shape, Isa isa) {
  return PLIMSOLL_PICK(isa, pick_few_channels)(shape);
}

bool pools_few_channels(const ops::Conv2dPoolGeometry& g, Isa isa) {
  return g.conv.groups == 1 && g.conv.rows().dilation == 1 && g.conv.columns().dilation == 1 &&
         g.pool_rows == 2 && g.pool_columns == 2 && g.conv.filters % lanes_of(isa) == 0 &&
         g.conv.rows().size * g.conv.columns().size * g.conv.channels <= kMostNumbers;
}

CpuKernel make_few_channels(const NodeFacts& facts, const CpuOptions& options) {
  if (!facts.computes(OpFamily::kConvolution, OpPass::kForward, OpFusion::kPool)) return {};
  if (facts.inputs[0].dtype != DType::kFloat32) return {};
  if (!pools_few_channels(ops::conv2d_pool_geometry(facts.op(), facts.types()), options.isa)) {
    return {};
  }
  const PooledForward forward(facts, options);
  return kernel_of([forward](const KernelCall& call) { forward.run(call); }, forward.scratch());
}

}  // namespace plimsoll::backend::cpu
