#include "toys/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace plimsoll::toys {
namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

int64_t allocation_count() { return allocations; }

}  // namespace plimsoll::toys

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
