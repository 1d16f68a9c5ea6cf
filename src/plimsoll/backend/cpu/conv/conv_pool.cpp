#include "backend/cpu/conv/conv_pool.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/conv/conv_pool_bands.h"
#include "backend/cpu/conv/conv_pool_pairs.h"
#include "backend/cpu/conv/few_channels.h"
#include "backend/cpu/conv/tiled_conv_pool.h"
#include "backend/cpu/families.h"
#include "base/ceil_div.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/conv/conv_pool_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

const uint16_t* input_halves(const KernelCall& call, size_t i) {
  return reinterpret_cast<const uint16_t*>(call.inputs[i].data);
}

// Floats that hold so many numbers of bfloat16.
int64_t floats_of_halves(int64_t halves) { return rounded((halves + 1) / 2); }

void round_up_to_pairs(PatchShape& shape) { shape.row = round_up(shape.run, kPairedRow); }

// --- kernel

class KernelGradient {
 public:
  KernelGradient(const NodeFacts& facts, const CpuOptions& options)
      : p_(facts, options),
        isa_(options.isa),
        bf16_(facts.inputs[0].dtype == DType::kBFloat16),
        use_bias_(facts.outputs.size() > 1),
        few_(few_channels_loop(p_.shape, options.isa)),
        loop_(few_ != nullptr ? few_ : PLIMSOLL_PICK(options.isa, add_kernel_gradient<float>)),
        pairs_(bf16_ && few_ == nullptr ? paired_loops(options) : nullptr),
        store_(PLIMSOLL_PICK(options.isa, store_kernel_gradient)) {
    if (pairs_ != nullptr) round_up_to_pairs(p_.shape);
    const PatchShape& s = p_.shape;
    numbers_ = few_ != nullptr ? s.kernel_rows * s.run : s.patch();
    const bool widens = bf16_ && pairs_ == nullptr;
    copies_ = widens || p_.has_border() || (few_ == nullptr && s.run != s.row);
    const int64_t groups = (s.filters + kListFilters - 1) / kListFilters;
    filter_parts_ = static_cast<int>(std::min<int64_t>(p_.most_parts, groups));
    row_parts_ = static_cast<int>(
        std::min<int64_t>(p_.most_parts / filter_parts_, p_.samples * p_.geometry.rows()));
    sums_ = rounded(s.filters * numbers_) + rounded(s.filters);
    gradient_row_ = widens ? rounded(p_.pooled_row()) : 0;
    const int64_t band =
        pairs_ == nullptr ? p_.band_numbers() : floats_of_halves(p_.band_numbers());
    band_ = (copies_ ? band : 0) + gradient_row_;
  }

  Bytes scratch() const {
    return Bytes((row_parts_ * sums_ + filter_parts_ * row_parts_ * band_) * kFloat);
  }

  void run(const KernelCall& call) const noexcept {
    auto* sums = reinterpret_cast<float*>(call.scratch);
    for_each_part(filter_parts_ * row_parts_, [&](int part) { add(call, sums, part); });
    const PatchShape& s = p_.shape;
    if (call.outputs[0].data != nullptr && few_ != nullptr) {
      add_parts(sums, s.filters * numbers_, output_floats(call, 0), !call.first);
    } else if (call.outputs[0].data != nullptr) {
      const int64_t rows = s.kernel_rows * s.run;
      const int parts = parts_for(rows * s.filters * 2 * kFloat, p_.most_parts);
      for_each_range(rows, kWidestVector, parts, [&](int64_t begin, int64_t end) {
        store_(s, sums, row_parts_, sums_, begin, end, output_floats(call, 0), !call.first);
      });
    }
    if (!use_bias_ || call.outputs[1].data == nullptr) return;
    add_parts(bias_sums(sums, 0), s.filters, output_floats(call, 1), !call.first);
  }

 private:
  // to[i] = the parts' sums[i], in the order of the parts, after to[i] where they are added to it.
  void add_parts(const float* sums, int64_t count, float* to, bool add) const noexcept {
    for (int64_t i = 0; i < count; ++i) {
      float total = 0.0f;
      for (int64_t part = 0; part < row_parts_; ++part) total += sums[part * sums_ + i];
      to[i] = add ? to[i] + total : total;
    }
  }

  // Filter by filter; number by number of the kernel where a filter has few.
  void clear(float* sums, Range filters) const noexcept {
    if (few_ == nullptr) {
      std::fill(sums + filters.begin * numbers_, sums + filters.end * numbers_, 0.0f);
      return;
    }
    for (int64_t i = 0; i < numbers_; ++i) {
      float* row = sums + i * p_.shape.filters;
      std::fill(row + filters.begin, row + filters.end, 0.0f);
    }
  }

  float* bias_sums(float* sums, int64_t row_part) const {
    return sums + row_part * sums_ + rounded(p_.shape.filters * numbers_);
  }

  void add(const KernelCall& call, float* all_sums, int part) const noexcept {
    const PatchShape& s = p_.shape;
    const int row_part = part / filter_parts_;
    const Range filters = part_of(s.filters, kListFilters, part % filter_parts_, filter_parts_);
    const Range rows = part_of(p_.samples * p_.geometry.rows(), 1, row_part, row_parts_);
    float* sums = all_sums + row_part * sums_;
    float* bias = bias_sums(all_sums, row_part);
    float* band = all_sums + row_parts_ * sums_ + part * band_;
    clear(sums, filters);
    std::fill(bias + filters.begin, bias + filters.end, 0.0f);
    std::fill(band, band + band_, 0.0f);
    if (pairs_ != nullptr) {
      add_pairs(call, rows, filters, reinterpret_cast<uint16_t*>(band), sums, bias);
      return;
    }
    float* gradient_row = band + band_ - gradient_row_;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t image = row / p_.geometry.rows() * p_.source_rows() * p_.source_row();
      const float* from = input_floats(call, 0) + image;
      const float* dy = input_floats(call, 1) + row * p_.pooled_row();
      const int64_t top = p_.top(row % p_.geometry.rows());
      if (bf16_) {
        p_.fill_band(input_halves(call, 0) + image, top, band, isa_);
        widen_numbers(input_halves(call, 1) + row * p_.pooled_row(), gradient_row, p_.pooled_row(),
                      isa_);
        dy = gradient_row;
      } else if (copies_) {
        p_.fill_band(from, top, band);
      }
      loop_(s, copies_ ? band : from + top * p_.source_row(),
            copies_ ? p_.band_row() : p_.source_row(), dy,
            reinterpret_cast<const uint8_t*>(call.inputs[2].data) + row * p_.pooled_row(),
            p_.geometry.columns(), filters.begin, filters.end, sums, bias);
    }
  }

  void add_pairs(const KernelCall& call, Range rows, Range filters, uint16_t* band, float* sums,
                 float* bias) const noexcept {
    const uint16_t* x = input_halves(call, 0);
    const auto* winners = reinterpret_cast<const uint8_t*>(call.inputs[2].data);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const uint16_t* image = x + row / p_.geometry.rows() * p_.source_rows() * p_.source_row();
      const int64_t top = p_.top(row % p_.geometry.rows());
      if (copies_) p_.fill_band(image, top, band);
      pairs_->add_kernel_gradient(p_.shape, copies_ ? band : image + top * p_.source_row(),
                                  copies_ ? p_.band_row() : p_.source_row(),
                                  input_halves(call, 1) + row * p_.pooled_row(),
                                  winners + row * p_.pooled_row(), p_.geometry.columns(),
                                  filters.begin, filters.end, sums, bias);
    }
    pairs_->put_in_order(sums + filters.begin * numbers_, (filters.end - filters.begin) * numbers_);
  }

  PooledBands p_;
  Isa isa_;
  bool bf16_;  // x and dy are bfloat16
  bool use_bias_;
  FewChannelsLoop few_;  // null: filter by filter, by lists
  FewChannelsLoop loop_;
  const PairedLoops* pairs_;  // of bfloat16; null: widened
  decltype(&generic::store_kernel_gradient) store_;
  bool copies_ = false;
  int filter_parts_ = 1;
  int row_parts_ = 1;
  int64_t numbers_ = 0;  // sums of one filter
  int64_t sums_ = 0;     // of one part of the rows
  int64_t band_ = 0;     // of one part, and a row of dy after it where that is widened
  int64_t gradient_row_ = 0;
};

// --- source

// Rows that gradients were added to, on their way into dx.
class SourceGradient {
 public:
  SourceGradient(const NodeFacts& facts, const CpuOptions& options)
      : p_(facts, options),
        isa_(options.isa),
        bf16_(facts.inputs[0].dtype == DType::kBFloat16),
        pairs_(bf16_ ? paired_loops(options) : nullptr),
        loop_(PLIMSOLL_PICK(options.isa, add_source_gradient<float>)),
        spread_(PLIMSOLL_PICK(options.isa, spread_kernel)) {
    if (pairs_ != nullptr) round_up_to_pairs(p_.shape);
    const PatchShape& s = p_.shape;
    const bool widens = bf16_ && pairs_ == nullptr;
    parts_ = static_cast<int>(std::min<int64_t>(p_.most_parts, p_.samples * p_.source_rows()));
    const int64_t kernel = s.filters * s.patch();
    kernel_ = pairs_ == nullptr ? rounded(kernel) : floats_of_halves(kernel);
    list_ = rounded(source_list(s));
    gradient_row_ = widens ? rounded(p_.pooled_row()) : 0;
    part_ = 2 * list_ + p_.band_numbers() + gradient_row_;
    wide_kernel_ = widens ? rounded(s.filters * s.kernel_rows * s.run) : 0;
  }

  Bytes scratch() const { return Bytes((kernel_ + parts_ * part_ + wide_kernel_) * kFloat); }

  void run(const KernelCall& call) const noexcept {
    auto* kernel = reinterpret_cast<float*>(call.scratch);
    const float* plain = input_floats(call, 2);
    if (wide_kernel_ > 0) {
      float* wide = kernel + kernel_ + parts_ * part_;
      const PatchShape& s = p_.shape;
      widen_numbers(input_halves(call, 2), wide, s.filters * s.kernel_rows * s.run, isa_);
      plain = wide;
    }
    for_each_range(p_.shape.filters, kWidestVector, parts_, [&](int64_t begin, int64_t end) {
      if (pairs_ != nullptr) {
        auto* halves = reinterpret_cast<uint16_t*>(kernel);
        pairs_->spread_kernel(p_.shape, input_halves(call, 2), begin, end, halves);
      } else {
        spread_(p_.shape, plain, begin, end, kernel);
      }
    });
    for_each_part(parts_, [&](int part) {
      const Range rows = part_of(p_.samples * p_.source_rows(), 1, part, parts_);
      float* scratch = kernel + kernel_ + part * part_;
      for (int64_t row = rows.begin; row < rows.end;) {
        const int64_t sample = row / p_.source_rows();
        const int64_t first = row - sample * p_.source_rows();
        const int64_t count = std::min(p_.source_rows() - first, rows.end - row);
        compute(call, kernel, sample, {first, first + count}, scratch);
        row += count;
      }
    });
  }

 private:
  // Rows [rows.begin, rows.end) of one image.
  void compute(const KernelCall& call, const float* kernel, int64_t sample, Range rows,
               float* scratch) const noexcept {
    const PatchShape& s = p_.shape;
    auto* offsets = reinterpret_cast<int32_t*>(scratch + list_);
    float* band = scratch + 2 * list_;
    float* gradient_row = band + p_.band_numbers();
    const int64_t element = bf16_ ? 2 : kFloat;
    std::byte* dx = call.outputs[0].data + sample * p_.source_rows() * p_.source_row() * element;
    const int64_t pooled = sample * p_.geometry.rows() * p_.pooled_row();
    std::memset(band, 0, static_cast<size_t>(p_.band_numbers() * kFloat));
    int64_t pooled_row = 0;
    while (pooled_row < p_.geometry.rows() && p_.top(pooled_row) + s.band_rows() <= rows.begin) {
      ++pooled_row;
    }
    int64_t next = rows.begin;
    for (; pooled_row < p_.geometry.rows() && p_.top(pooled_row) < rows.end; ++pooled_row) {
      const int64_t top = p_.top(pooled_row);
      const int64_t at = pooled + pooled_row * p_.pooled_row();
      const auto* winners = reinterpret_cast<const uint8_t*>(call.inputs[1].data) + at;
      const Range within{std::max<int64_t>(rows.begin - top, 0),
                         std::min(rows.end - top, s.band_rows())};
      if (pairs_ != nullptr) {
        pairs_->add_source_gradient(s, reinterpret_cast<const uint16_t*>(kernel),
                                    input_halves(call, 0) + at, winners, p_.geometry.columns(),
                                    within.begin, within.end, reinterpret_cast<uint16_t*>(scratch),
                                    offsets, band, p_.band_row());
      } else {
        const float* dy = input_floats(call, 0) + at;
        if (bf16_) {
          widen_numbers(input_halves(call, 0) + at, gradient_row, p_.pooled_row(), isa_);
          dy = gradient_row;
        }
        loop_(s, kernel, dy, winners, p_.geometry.columns(), within.begin, within.end, scratch,
              offsets, band, p_.band_row());
      }
      const bool last = pooled_row + 1 == p_.geometry.rows();
      next = emit(next, std::min(rows.end, last ? rows.end : top + s.step_rows()), top, band, dx);
      shift(band);
    }
    emit(next, rows.end, rows.end, band, dx);
  }

  // Writes rows [next, end) of dx; the band begins at row `top`, what it does not hold is zero.
  int64_t emit(int64_t next, int64_t end, int64_t top, const float* band, std::byte* dx) const {
    const int64_t held = p_.held_columns() * p_.shape.channels;
    const int64_t element = bf16_ ? 2 : kFloat;
    for (; next < end; ++next) {
      std::byte* to = dx + next * p_.source_row() * element;
      const int64_t row = next - top;
      const bool holds = row >= 0 && row < p_.shape.band_rows();
      const float* sums = band + row * p_.band_row() + p_.left() * p_.shape.channels;
      if (holds && bf16_) {
        round_numbers(sums, reinterpret_cast<uint16_t*>(to), held, isa_);
      } else if (holds) {
        std::memcpy(to, sums, static_cast<size_t>(held * kFloat));
      }
      const int64_t from = holds ? held : 0;
      std::memset(to + from * element, 0, static_cast<size_t>((p_.source_row() - from) * element));
    }
    return next;
  }

  // To the next pooled row.
  void shift(float* band) const {
    const int64_t kept = std::max<int64_t>(p_.shape.band_rows() - p_.shape.step_rows(), 0);
    if (kept > 0) {
      std::memmove(band, band + p_.shape.step_rows() * p_.band_row(),
                   static_cast<size_t>(kept * p_.band_row() * kFloat));
    }
    std::memset(band + kept * p_.band_row(), 0,
                static_cast<size_t>((p_.band_numbers() - kept * p_.band_row()) * kFloat));
  }

  PooledBands p_;
  Isa isa_;
  bool bf16_;                 // dy, the kernel and dx are bfloat16
  const PairedLoops* pairs_;  // of bfloat16; null: widened
  decltype(&generic::add_source_gradient<float>) loop_;
  decltype(&generic::spread_kernel) spread_;
  int parts_ = 1;
  int64_t kernel_ = 0;  // floats
  int64_t list_ = 0;
  int64_t part_ = 0;
  int64_t gradient_row_ = 0;  // of dy, widened
  int64_t wide_kernel_ = 0;
};

template <typename Gradient>
CpuKernel gradient_kernel(Gradient gradient) {
  const Bytes scratch = gradient.scratch();
  return kernel_of([gradient](const KernelCall& call) { gradient.run(call); }, scratch);
}

}  // namespace

ConvPooling::ConvPooling(const ops::Conv2dPoolGeometry& geometry, Isa isa)
    : shape_(patch_shape(geometry)),
      columns_(geometry.columns()),
      result_row_(geometry.conv.columns().output * geometry.conv.filters),
      relu_(geometry.relu),
      loop_(PLIMSOLL_PICK(isa, pool_conv_rows)) {}

void ConvPooling::run(const float* result, int64_t rows, float* y,
                      uint8_t* winners) const noexcept {
  loop_(shape_, relu_, result, result_row_, rows, columns_, y, winners);
}

CpuKernel make_conv_pool(const NodeFacts& facts, const CpuOptions& options) {
  constexpr OpFamily kFamily = OpFamily::kConvolution;
  const bool to_kernel = facts.computes(kFamily, OpPass::kGradKernel, OpFusion::kPool);
  if (!to_kernel && !facts.computes(kFamily, OpPass::kGradInput, OpFusion::kPool)) return {};
  const DType dtype = facts.inputs[0].dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) return {};
  const ops::Conv2dPoolGeometry g = ops::conv2d_pool_geometry(facts.op(), facts.types());
  if (g.conv.rows().dilation != 1 || g.conv.columns().dilation != 1) return {};
  if (CpuKernel tiled = make_tiled_conv_pool(facts, options); tiled.kernel != nullptr) return tiled;
  if (to_kernel) return gradient_kernel(KernelGradient(facts, options));
  return gradient_kernel(SourceGradient(facts, options));
}

}  // namespace plimsoll::backend::cpu
