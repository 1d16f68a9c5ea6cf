// The dimensions of each sample in another order.

#include <cstring>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"

namespace plimsoll::backend::reference {
namespace {

std::unique_ptr<Kernel> make_transpose(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  const std::vector<int64_t>& order = problem.attributes.get_ints("permutation");
  return kernel_of([order, element](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    // Strides of the input in the output's order.
    std::array<int64_t, kMaxRank> from{};
    from[0] = x.strides[0];
    for (size_t i = 0; i < order.size(); ++i) {
      from[i + 1] = x.strides[static_cast<size_t>(order[i])];
    }
    const Strides strides(from.data(), y.dims.size());
    for_each_run<2>(y.dims, {strides, y.strides}, [&](const auto& at, int64_t, int64_t count) {
      std::memcpy(y.data + at[1] * element, x.data + at[0] * element,
                  static_cast<size_t>(count * element));
    });
  });
}

constexpr KernelEntry kEntries[] = {{"transpose", make_transpose, nullptr, true, true}};

}  // namespace

std::span<const KernelEntry> transpose_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
