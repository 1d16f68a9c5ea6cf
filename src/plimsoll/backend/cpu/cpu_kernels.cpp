#include "backend/cpu/cpu_kernels.h"

#include <algorithm>

#include "backend/cpu/families.h"

namespace plimsoll::backend::cpu {

const CpuEntry* find_entry(std::span<const CpuEntry> entries, std::string_view op) {
  const auto found = std::ranges::find(entries, op, &CpuEntry::op);
  return found == entries.end() ? nullptr : &*found;
}

CpuKernel make_listed(std::span<const CpuEntry> entries, const NodeFacts& facts,
                      const CpuOptions& options) {
  const CpuEntry* entry = find_entry(entries, facts.op());
  return entry == nullptr ? CpuKernel() : entry->make(facts, options);
}

CpuKernel make_cpu_kernel(const NodeFacts& facts, const CpuOptions& options) {
  for (const auto make : {make_attention, make_class_rows, make_packed_dense}) {
    CpuKernel made = make(facts, options);
    if (made.kernel != nullptr) return made;
  }
  if (facts.cut_inside_samples()) return {};
  for (const auto make : {make_elementwise,
                          make_activations,
                          make_moving,
                          make_stretched,
                          make_masks,
                          make_pooling,
                          make_channels,
                          make_channel_groups,
                          make_conv_pool,
                          make_winograd,
                          make_winograd_kernel_grad,
                          make_kernel_grad,
                          make_few_channels,
                          make_few_units,
                          make_transposed_dense,
                          make_rows,
                          make_dense_crossentropy,
                          make_embedding,
                          make_recurrent,
                          make_dense_grad_update,
                          make_optimizer,
                          make_widened_rows,
                          make_depthwise,
                          make_patch_convolution,
                          make_images}) {
    CpuKernel made = make(facts, options);
    if (made.kernel != nullptr) return made;
  }
  return {};
}

}  // namespace plimsoll::backend::cpu
