#pragma once

// Counts what goes through operator new in the program that links it, vendors' libraries included.

#include <cstdint>

namespace plimsoll::toys {

// Since the program's start.
int64_t allocation_count();

}  // namespace plimsoll::toys
