// dense_grad_update (ops/training/dense_grad_update.cpp), a row of the weight at a time.

#include <algorithm>

#include "backend/kernel/rows_update.h"
#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "backend/reference/reference.h"

namespace plimsoll::backend::reference {
namespace {

int64_t units_of(const Problem& problem) {
  return problem.inputs[1].shape[problem.inputs[1].shape.rank() - 1].count;
}

std::unique_ptr<Kernel> make_update(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    auto update = std::make_shared<const RowsUpdate>(problem.inputs, problem.attributes, 1,
                                                     make_reference_kernel);
    return kernel_of([update = std::move(update)](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& dy = call.inputs[1];
      const int64_t units = row_length(dy);
      auto* sums = reinterpret_cast<double*>(call.scratch);
      auto* gradient = reinterpret_cast<T*>(sums + units);
      for (int64_t row = 0; row < row_length(x); ++row) {
        std::fill(sums, sums + units, 0.0);
        for_each_index<2>(row_dims(x), {x.strides, dy.strides}, [&](const auto& at, int64_t) {
          const auto value = static_cast<double>(data_of<T>(x)[at[0] + row]);
          const T* from = data_of<T>(dy) + at[1];
          for (int64_t u = 0; u < units; ++u) sums[u] += value * static_cast<double>(from[u]);
        });
        for (int64_t u = 0; u < units; ++u) gradient[u] = static_cast<T>(sums[u]);
        update->run(call, row, reinterpret_cast<std::byte*>(gradient));
      }
    });
  });
}

Bytes update_scratch(const Problem& problem) {
  return Bytes(units_of(problem) * 2 * int64_t{sizeof(double)});
}

constexpr KernelEntry kEntries[] = {{"dense_grad_update", make_update, update_scratch}};

}  // namespace

std::span<const KernelEntry> dense_grad_update_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
