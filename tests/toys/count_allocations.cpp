#include "toys/count_allocations.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace plimsoll::toys {
namespace {

std::atomic<int64_t> allocations{0};
std::atomic<int64_t> largest{0};

#if PLIMSOLL_WATCHES_HEAP
void note(size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  int64_t known = largest.load(std::memory_order_relaxed);
  while (known < size && !largest.compare_exchange_weak(known, size, std::memory_order_relaxed)) {
  }
}
#endif

}  // namespace

int64_t allocation_count() { return allocations; }
int64_t largest_block() { return largest; }
void forget_largest_block() { largest = 0; }

}  // namespace plimsoll::toys

#if PLIMSOLL_WATCHES_HEAP

// The program's own forms come before the C library's, for the libraries that it loads, too.
#define PLIMSOLL_REPLACES extern "C" __attribute__((visibility("default")))

extern "C" void* __libc_malloc(size_t bytes);
extern "C" void* __libc_calloc(size_t count, size_t bytes);
extern "C" void* __libc_realloc(void* memory, size_t bytes);
extern "C" void* __libc_memalign(size_t alignment, size_t bytes);

PLIMSOLL_REPLACES void* malloc(size_t bytes) {
  plimsoll::toys::note(bytes);
  return __libc_malloc(bytes);
}
PLIMSOLL_REPLACES void* calloc(size_t count, size_t bytes) {
  plimsoll::toys::note(count * bytes);
  return __libc_calloc(count, bytes);
}
PLIMSOLL_REPLACES void* realloc(void* memory, size_t bytes) {
  plimsoll::toys::note(bytes);
  return __libc_realloc(memory, bytes);
}
PLIMSOLL_REPLACES void* memalign(size_t alignment, size_t bytes) {
  plimsoll::toys::note(bytes);
  return __libc_memalign(alignment, bytes);
}
PLIMSOLL_REPLACES void* aligned_alloc(size_t alignment, size_t bytes) {
  plimsoll::toys::note(bytes);
  return __libc_memalign(alignment, bytes);
}
PLIMSOLL_REPLACES int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  plimsoll::toys::note(bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

#undef PLIMSOLL_REPLACES

#endif

// All of the replaceable forms, so that none meets another's memory; arrays come here by default.

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++plimsoll::toys::allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  ++plimsoll::toys::allocations;
  const auto multiple = static_cast<size_t>(alignment);
  void* memory = std::aligned_alloc(multiple, (bytes / multiple + 1) * multiple);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
