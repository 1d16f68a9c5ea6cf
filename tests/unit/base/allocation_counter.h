#pragma once

// Counts calls of operator new in the test program that lists allocation_counter.cpp among its
// sources.

#include <cstdint>

namespace plimsoll::test {

int64_t allocation_count();

}  // namespace plimsoll::test
