#pragma once

// Watches what the program that links it takes from the heap, vendors' libraries included.

#include <cstdint>

namespace plimsoll::toys {

// Through operator new, since the program's start.
int64_t allocation_count();

// Bytes of the largest block that malloc, calloc, realloc or an aligned form of them was asked for
// since the last call of forget_largest_block. Always 0 under a sanitizer, which has a heap of its
// own.
int64_t largest_block();
void forget_largest_block();

}  // namespace plimsoll::toys
