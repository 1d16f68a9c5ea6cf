#include "unit/base/allocation_counter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> count = 0;
std::atomic<int64_t> live = 0;
std::atomic<int64_t> peak = 0;

void* counted(void* memory) {
  ++count;
  const int64_t now = live += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t most = peak;
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return memory;
}
void give_back(void* memory) {
  live -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
}  // namespace

namespace plimsoll::test {
int64_t allocation_count() { return count; }
int64_t live_bytes() { return live; }
int64_t peak_bytes() { return peak; }
void forget_peak_bytes() { peak = live.load(); }
}  // namespace plimsoll::test

void* operator new(size_t size) {
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return counted(memory);
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, size_t) noexcept { give_back(memory); }
