#pragma once

// Watches what the program that links it takes from the heap, vendors' libraries included.

#include <cstdint>

// Sanitizers have a heap of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLIMSOLL_WATCHES_HEAP 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define PLIMSOLL_WATCHES_HEAP 0
#else
#define PLIMSOLL_WATCHES_HEAP 1
#endif
#else
#define PLIMSOLL_WATCHES_HEAP 1
#endif

namespace plimsoll::toys {

// Through operator new, since the program's start.
int64_t allocation_count();

// Bytes of the largest block that malloc, calloc, realloc or an aligned form of them was asked for
// since the last call of forget_largest_block. 0 where the heap is not watched.
int64_t largest_block();
void forget_largest_block();

}  // namespace plimsoll::toys
