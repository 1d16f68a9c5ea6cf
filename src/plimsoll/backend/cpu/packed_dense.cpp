// dense, convolutions of single points, and their gradients as products of our own, where the
// vendor's would allocate in the middle of a step: without AVX-512 its products of float32 pack
// their factors to buffers of their own, and its convolutions of single points take weights in one
// layout for one size of the image, and in another for the next.
//
//   scratch  [packed rows of x, panels] a thread, [dy] where the units are cut and there is a bias

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/column_sums.h"
#include "backend/cpu/dense_shape.h"
#include "backend/cpu/families.h"
#include "backend/cpu/packed_product.h"

namespace plimsoll::backend::cpu {
namespace {

// Below this many floating-point operations one thread is as fast as several.
constexpr double kFlopsWorthATeam = 4e5;
// Shares begin at multiples: of columns, whole panels; of rows, whole tiles.
constexpr int64_t kColumnGrain = 16;
constexpr int64_t kRowGrain = 6;

class PackedDense final {
 public:
  PackedDense(const DenseShape& d, const CpuOptions& options)
      : d_(d),
        multiply_(pick_packed_multiply(options.isa)),
        bias_sums_(d.rows, d.units, options.isa, d.cut() ? 1 : options.threads) {
    const bool forward = d.kind == DenseKind::kForward;
    const bool grad_kernel = d.kind == DenseKind::kGradKernel;
    product_ = {.rows = grad_kernel ? d.inner : d.rows,
                .inner = forward       ? d.inner
                         : grad_kernel ? d.rows
                                       : d.units,
                .columns = forward || grad_kernel ? d.units : d.inner,
                .turned_x = grad_kernel,
                .turned = d.kind == DenseKind::kGradInput,
                .relu = d.relu};
    const double flops = 2.0 * static_cast<double>(d.rows) * static_cast<double>(d.inner) *
                         static_cast<double>(d.units);
    by_columns_ = product_.columns > product_.rows;
    const int64_t shares =
        by_columns_ ? product_.columns / kColumnGrain : product_.rows / kRowGrain;
    parts_ = flops < kFlopsWorthATeam
                 ? 1
                 : static_cast<int>(std::clamp<int64_t>(shares, 1, options.threads));
    for (int part = 0; part < parts_; ++part) {
      const Range share = part_of(product_.columns, kColumnGrain, part, parts_);
      PackedProduct own = product_;
      if (by_columns_) own.columns = share.end - share.begin;
      panels_.push_back(panel_floats_);
      panel_floats_ += packed_floats(options.isa, own);
    }
  }

  Bytes scratch() const {
    const int64_t rows = gathers_rows() ? d_.rows * d_.units : 0;
    return Bytes((panel_floats_ + rows) * static_cast<int64_t>(sizeof(float)));
  }

  void operator()(const KernelCall& call) const {
    if (call.outputs[0].data != nullptr) multiply(call);
    if (d_.kind != DenseKind::kGradKernel || !d_.bias || call.outputs[1].data == nullptr) return;
    const float* dy = input_floats(call, 1);
    if (gathers_rows()) {
      const int64_t stride = row_stride(call.inputs[1].dims, call.inputs[1].strides);
      float* rows = reinterpret_cast<float*>(call.scratch) + panel_floats_;
      for (int64_t r = 0; r < d_.rows; ++r) {
        std::memcpy(rows + r * d_.units, dy + r * stride,
                    static_cast<size_t>(d_.units) * sizeof(float));
      }
      dy = rows;
    }
    bias_sums_.run(dy, output_floats(call, 1), !call.first);
  }

 private:
  bool gathers_rows() const { return d_.cut() && d_.bias && d_.kind == DenseKind::kGradKernel; }

  // The whole product of a call.
  PackedProduct product_of(const KernelCall& call) const {
    PackedProduct p = product_;
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
    p.x = input_floats(call, 0);
    p.w = input_floats(call, 1);
    p.y = output_floats(call, 0);
    return p;
  }

  void multiply(const KernelCall& call) const {
    const PackedProduct whole = product_of(call);
    for_each_part(parts_, [&](int part) {
      PackedProduct p = whole;
      if (by_columns_) {
        const Range share = part_of(p.columns, kColumnGrain, part, parts_);
        p.columns = share.end - share.begin;
        p.w += share.begin * (p.turned ? p.w_row : 1);
        p.y += share.begin;
        if (p.bias != nullptr) p.bias += share.begin;
      } else {
        const Range share = part_of(p.rows, kRowGrain, part, parts_);
        p.rows = share.end - share.begin;
        p.x += share.begin * p.x_row;
        p.y += share.begin * p.y_row;
      }
      multiply_(p, reinterpret_cast<float*>(call.scratch) + panels_[static_cast<size_t>(part)]);
    });
  }

  DenseShape d_;
  PackedMultiplyFunction multiply_;
  ColumnSums bias_sums_;
  PackedProduct product_;
  bool by_columns_ = false;
  int parts_ = 1;
  std::vector<int64_t> panels_;  // where each thread's begin
  int64_t panel_floats_ = 0;
};

}  // namespace

CpuKernel make_packed_dense(const NodeFacts& facts, const CpuOptions& options) {
  const auto shape = read_packed_dense(facts, options.isa);
  if (!shape) return {};
  PackedDense dense(*shape, options);
  const Bytes scratch = dense.scratch();
  CpuKernel made = kernel_of(std::move(dense), scratch);
  made.strided = shape->cut();
  return made;
}

}  // namespace plimsoll::backend::cpu
