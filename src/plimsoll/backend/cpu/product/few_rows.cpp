#include "backend/cpu/product/few_rows.h"

#include <algorithm>

#include "backend/cpu/threads/threads.h"

namespace plimsoll::backend::cpu {
namespace {

// What of y is summed at once lies in or near the first cache, but where that would leave less of a
// row of the weights than half a page.
constexpr int64_t kMostSums = 8 << 10;
constexpr int64_t kLeastColumns = 512;

}  // namespace
}  // namespace plimsoll::backend::cpu

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/product/few_rows_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

// With more rows the products take longer than the weights need to come.
constexpr int64_t kMostRows = 32;
// Weights that no cache keeps from one pass to the next.
constexpr int64_t kLeastWeights = 1 << 20;
// Shares of columns, and of rows of w, begin at multiples.
constexpr int64_t kColumnGrain = 16;
constexpr int64_t kInnerGrain = 12;

class FewRowsDense {
 public:
  FewRowsDense(const DenseShape& d, const CpuOptions& options)
      : d_(d),
        parts_(options.parts),
        forward_(PLIMSOLL_PICK(options.isa, few_rows_forward)),
        gradient_(PLIMSOLL_PICK(options.isa, few_rows_gradient)) {}

  void operator()(const KernelCall& call) const noexcept {
    const bool forward = d_.kind == DenseKind::kForward;
    const auto stride = [&](const Operand& operand) {
      return d_.cut() ? row_stride(operand.dims, operand.strides) : d_.units;
    };
    FewRows all{.rows = d_.rows, .inner = d_.inner, .columns = d_.units};
    all.x = input_floats(call, 0);
    all.x_row = forward ? d_.inner : stride(call.inputs[0]);
    all.w = input_floats(call, 1);
    all.w_row = stride(call.inputs[1]);
    all.y = output_floats(call, 0);
    all.y_row = forward ? stride(call.outputs[0]) : d_.inner;
    if (forward && d_.bias) all.bias = input_floats(call, 2);
    all.relu = d_.relu;
    all.add = !forward && d_.cut() && !call.first;
    if (forward) {
      for_each_range(d_.units, kColumnGrain, parts_, [&](int64_t begin, int64_t end) {
        FewRows own = all;
        own.columns = end - begin;
        own.w += begin;
        own.y += begin;
        if (own.bias != nullptr) own.bias += begin;
        forward_(own);
      });
    } else {
      for_each_range(d_.inner, kInnerGrain, parts_, [&](int64_t begin, int64_t end) {
        FewRows own = all;
        own.inner = end - begin;
        own.w += begin * own.w_row;
        own.y += begin;
        gradient_(own);
      });
    }
  }

 private:
  DenseShape d_;
  int parts_;
  void (*forward_)(const FewRows&);
  void (*gradient_)(const FewRows&);
};

}  // namespace

bool is_few_rows(const DenseShape& d) {
  return d.kind != DenseKind::kGradKernel && !d.bf16 && !d.spread && d.rows >= 1 &&
         d.rows <= kMostRows && d.inner * d.all_units >= kLeastWeights;
}

CpuKernel make_few_rows(const DenseShape& shape, const CpuOptions& options) {
  CpuKernel made = kernel_of(FewRowsDense(shape, options));
  made.strided = shape.cut();
  return made;
}

}  // namespace plimsoll::backend::cpu
