#include "memory.h"

#include <cstdint>

#include "base/process_memory.h"
#include "planning/memory_model.h"

using namespace nanobind::literals;

namespace plimsoll::python {

void bind_memory(nanobind::module_& module) {
  module.def(
      "held_by_process", [] { return planning::read_given().count(); },
      "Bytes that this process holds now beside the engine's own code.");
  module.def(
      "process_memory", [] { return read_process_memory().now().count(); },
      "Bytes that this process takes now, as the kernel counts them.");
  module.def(
      "takes_at_most",
      [](int64_t limit) {
        // Page tables are a 512th of what they map; the rest is for stacks of threads.
        const int64_t resident = peak_resident_at_most().count();
        if (resident + resident / 256 + (4_MiB).count() <= limit) return true;
        return read_process_memory().now().count() <= limit;
      },
      "limit"_a, "Whether this process takes no more now; cheap where it never did.");
  module.def(
      "process_memory_peak", [] { return process_memory_peak().count(); }, "The highest so far.");
}

}  // namespace plimsoll::python
