#pragma once

// What a run takes of memory, measured beside what was planned.

#include <optional>

#include "base/bytes.h"

namespace plimsoll::train {

// What the kernel says now, beside what was planned.
struct MemoryReport {
  Bytes planned_arena;
  Bytes measured_arena;
  Bytes arena_values;  // the least that measured_arena is: scratch need not be touched
  Bytes predicted_process;
  Bytes measured_process;
  std::optional<Bytes> limit;
  bool passed_limit = false;  // a fault of ours
};

}  // namespace plimsoll::train
