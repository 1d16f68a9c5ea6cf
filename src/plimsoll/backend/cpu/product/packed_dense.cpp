// dense, convolutions of single points, and their gradients as products of our own.
//
// Without AVX-512 the vendor's would allocate in the middle of a step: its products of float32 pack
// their factors to buffers of their own, and its convolutions of single points take weights in one
// layout for one size of the image, and in another for the next. With it, these are the faster ones
// for gradients to the kernels of single points and through their strides, and for dense layers of
// bfloat16 in pairs (docs/design/0016, 0012). Small gradients to kernels of single points, and few
// rows that meet weights from memory, have loops of their own (small_gradient.h, few_rows.h).
//
//   scratch  [packed rows of x, panels] a thread, [dy] where the units are cut and there is a bias,
//            [dx without the positions between] where there are strides

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "backend/cpu/families.h"
#include "backend/cpu/product/column_sums.h"
#include "backend/cpu/product/dense_shape.h"
#include "backend/cpu/product/few_rows.h"
#include "backend/cpu/product/packed_product.h"
#include "backend/cpu/product/paired_product.h"
#include "backend/cpu/product/small_gradient.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {
namespace {

// Below this many floating-point operations one thread is as fast as several.
constexpr double kFlopsWorthATeam = 4e5;
// Shares begin at multiples.
constexpr int64_t kColumnGrain = 16;
constexpr int64_t kRowGrain = 6;

// Products of float32.
struct Plain {
  using Number = float;
  using Product = PackedProduct;

  explicit Plain(const CpuOptions& options)
      : multiply(pick_packed_multiply(options.isa)), isa(options.isa) {}
  int64_t bytes(const Product& p) const {
    return packed_floats(isa, p) * static_cast<int64_t>(sizeof(float));
  }
  void run(const Product& p, std::byte* scratch) const {
    multiply(p, reinterpret_cast<float*>(scratch));
  }
  static void set_result(Product& p, std::byte* y) { p.y = reinterpret_cast<float*>(y); }
  static void step_result(Product& p, int64_t numbers) { p.y += numbers; }

  PackedMultiplyFunction multiply;
  Isa isa;
};

// Multiplies bfloat16 factors in pairs.
struct Paired {
  using Number = uint16_t;
  using Product = PairedProduct;

  explicit Paired(const CpuOptions& options) : multiply(pick_paired_multiply(options)) {}
  int64_t bytes(const Product& p) const { return round_up_to_line(multiply->bytes(p)); }
  void run(const Product& p, std::byte* scratch) const { multiply->run(p, scratch); }
  static void set_result(Product& p, std::byte* y) {
    if (p.bf16) {
      p.bf16_y = reinterpret_cast<uint16_t*>(y);
    } else {
      p.y = reinterpret_cast<float*>(y);
    }
  }
  static void step_result(Product& p, int64_t numbers) {
    if (p.bf16) {
      p.bf16_y += numbers;
    } else {
      p.y += numbers;
    }
  }

  const PairedMultiply* multiply;
};

template <typename Family>
class PackedDense final {
 public:
  PackedDense(const DenseShape& d, const CpuOptions& options)
      : d_(d),
        family_(options),
        bias_sums_(d.rows, d.units, options.isa, d.cut() ? 1 : options.parts) {
    const bool forward = d.kind == DenseKind::kForward;
    const bool grad_kernel = d.kind == DenseKind::kGradKernel;
    product_.rows = grad_kernel ? d.inner : d.rows;
    product_.inner = forward ? d.inner : grad_kernel ? d.rows : d.units;
    product_.columns = forward || grad_kernel ? d.units : d.inner;
    product_.transposed_x = grad_kernel;
    product_.transposed = d.kind == DenseKind::kGradInput;
    product_.relu = d.relu;
    if constexpr (std::is_same_v<Family, Paired>) product_.bf16 = !grad_kernel;
    const double flops = 2.0 * static_cast<double>(d.rows) * static_cast<double>(d.inner) *
                         static_cast<double>(d.units);
    by_columns_ = product_.columns > product_.rows;
    const int64_t shares =
        by_columns_ ? product_.columns / kColumnGrain : product_.rows / kRowGrain;
    parts_ = flops < kFlopsWorthATeam
                 ? 1
                 : static_cast<int>(std::clamp<int64_t>(shares, 1, options.parts));
    for (int part = 0; part < parts_; ++part) {
      Product own = product_;
      const Range share = by_columns_ ? part_of(product_.columns, kColumnGrain, part, parts_)
                                      : part_of(product_.rows, kRowGrain, part, parts_);
      (by_columns_ ? own.columns : own.rows) = share.end - share.begin;
      panels_.push_back(panel_bytes_);
      panel_bytes_ += family_.bytes(own);
    }
  }

  Bytes scratch() const {
    const int64_t numbers = gathers_rows() ? d_.rows * d_.units
                            : d_.spread    ? d_.rows * d_.inner
                                           : 0;
    return Bytes(panel_bytes_ + numbers * static_cast<int64_t>(sizeof(Number)));
  }

  void operator()(const KernelCall& call) const {
    if (call.outputs[0].data != nullptr) {
      multiply(call);
      if (d_.spread) spread(call);
    }
    if (d_.kind != DenseKind::kGradKernel || !d_.bias || call.outputs[1].data == nullptr) return;
    const auto* dy = reinterpret_cast<const Number*>(call.inputs[1].data);
    if (gathers_rows()) {
      const int64_t stride = row_stride(call.inputs[1].dims, call.inputs[1].strides);
      auto* rows = reinterpret_cast<Number*>(call.scratch + panel_bytes_);
      for (int64_t r = 0; r < d_.rows; ++r) {
        std::memcpy(rows + r * d_.units, dy + r * stride,
                    static_cast<size_t>(d_.units) * sizeof(Number));
      }
      dy = rows;
    }
    bias_sums_.run(dy, output_floats(call, 1), !call.first);
  }

 private:
  using Number = typename Family::Number;
  using Product = typename Family::Product;

  bool gathers_rows() const { return d_.cut() && d_.bias && d_.kind == DenseKind::kGradKernel; }

  // The whole product of a call.
  Product product_of(const KernelCall& call) const {
    Product p = product_;
    const auto stride = [&](const Operand& operand) {
      return d_.cut() ? row_stride(operand.dims, operand.strides) : d_.units;
    };
    switch (d_.kind) {
      case DenseKind::kForward:
        p.x_row = d_.inner;
        p.w_row = stride(call.inputs[1]);
        p.y_row = stride(call.outputs[0]);
        if (d_.bias) p.bias = input_floats(call, 2);
        break;
      case DenseKind::kGradInput:
        p.x_row = stride(call.inputs[0]);
        p.w_row = stride(call.inputs[1]);
        p.y_row = d_.inner;
        p.add = d_.cut() && !call.first;
        break;
      case DenseKind::kGradKernel:
        p.x_row = 1;
        p.x_step = d_.inner;
        p.w_row = stride(call.inputs[1]);
        p.y_row = stride(call.outputs[0]);
        p.add = !call.first;
        break;
    }
    p.x = reinterpret_cast<const Number*>(call.inputs[0].data);
    p.w = reinterpret_cast<const Number*>(call.inputs[1].data);
    Family::set_result(p, d_.spread ? call.scratch + panel_bytes_ : call.outputs[0].data);
    return p;
  }

  // Rows of the source that windows stand on get theirs, all others zeros.
  void spread(const KernelCall& call) const {
    const SpreadPositions& s = *d_.spread;
    const auto* from = reinterpret_cast<const Number*>(call.scratch + panel_bytes_);
    auto* to = reinterpret_cast<Number*>(call.outputs[0].data);
    const int64_t images = d_.rows / (s.rows * s.columns);
    const auto bytes = static_cast<size_t>(d_.inner) * sizeof(Number);
    for_each_range(images * s.source_rows, 1, parts_, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t row = r % s.source_rows;
        Number* row_to = to + r * s.source_columns * d_.inner;
        std::memset(row_to, 0, static_cast<size_t>(s.source_columns) * bytes);
        if (row % s.row_stride != 0 || row / s.row_stride >= s.rows) continue;
        const int64_t position =
            (r / s.source_rows * s.rows + row / s.row_stride) * s.columns * d_.inner;
        for (int64_t c = 0; c < s.columns; ++c) {
          std::memcpy(row_to + c * s.column_stride * d_.inner, from + position + c * d_.inner,
                      bytes);
        }
      }
    });
  }

  void multiply(const KernelCall& call) const {
    const Product whole = product_of(call);
    for_each_part(parts_, [&](int part) {
      Product p = whole;
      if (by_columns_) {
        const Range share = part_of(p.columns, kColumnGrain, part, parts_);
        p.columns = share.end - share.begin;
        p.w += share.begin * (p.transposed ? p.w_row : 1);
        Family::step_result(p, share.begin);
        if (p.bias != nullptr) p.bias += share.begin;
      } else {
        const Range share = part_of(p.rows, kRowGrain, part, parts_);
        p.rows = share.end - share.begin;
        p.x += share.begin * p.x_row;
        Family::step_result(p, share.begin * p.y_row);
      }
      family_.run(p, call.scratch + panels_[static_cast<size_t>(part)]);
    });
  }

  DenseShape d_;
  Family family_;
  ColumnSums bias_sums_;
  Product product_;
  bool by_columns_ = false;
  int parts_ = 1;
  std::vector<int64_t> panels_;  // where each thread's begin, in bytes
  int64_t panel_bytes_ = 0;
};

CpuKernel make_small(const DenseShape& d, const CpuOptions& options) {
  const SmallGradient gradient(d, options);
  const ColumnSums bias(d.rows, d.units, options.isa, options.parts);
  return kernel_of(
      [gradient, bias, with_bias = d.bias](const KernelCall& call) {
        if (call.outputs[0].data != nullptr) gradient.run(call);
        if (!with_bias || call.outputs[1].data == nullptr) return;
        bias.run(input_floats(call, 1), output_floats(call, 1), !call.first);
      },
      gradient.scratch());
}

template <typename Family>
CpuKernel make_of(const DenseShape& shape, const CpuOptions& options) {
  PackedDense<Family> dense(shape, options);
  const Bytes scratch = dense.scratch();
  CpuKernel made = kernel_of(std::move(dense), scratch);
  made.strided = shape.cut();
  return made;
}

}  // namespace

CpuKernel make_packed_dense(const NodeFacts& facts, const CpuOptions& options) {
  const auto shape = read_packed_dense(facts, options);
  if (!shape) return {};
  if (shape->loops == DenseLoops::kFewRows) return make_few_rows(*shape, options);
  if (shape->loops == DenseLoops::kSmallGradient) return make_small(*shape, options);
  return shape->bf16 ? make_of<Paired>(*shape, options) : make_of<Plain>(*shape, options);
}

}  // namespace plimsoll::backend::cpu
