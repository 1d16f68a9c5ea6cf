// Images resized, cropped, flipped, warped and recoloured: the reference's loops, whose units need
// nothing of each other, on the team.

#include "backend/cpu/families.h"
#include "backend/reference/image/image_changes.h"

namespace plimsoll::backend::cpu {

CpuKernel make_images(const NodeFacts& facts, const CpuOptions& options) {
  if (!facts.all_float32()) return {};
  const reference::ImageLoop loop = reference::image_loop(facts.op(), facts);
  if (loop.run == nullptr) return {};
  // Each number of an output takes as long as several that are only moved.
  const int64_t bytes = 16 * (facts.input_elements(0) + facts.output_elements(0));
  const int parts = parts_for(bytes, options.parts);
  return kernel_of([=](const KernelCall& call) {
    for_each_range(loop.units(call), 1, parts,
                   [&](int64_t begin, int64_t end) { loop.run(call, begin, end); });
  });
}

}  // namespace plimsoll::backend::cpu
