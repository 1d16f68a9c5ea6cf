#include "backend/cpu/threads.h"

#include <omp.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace plimsoll::backend::cpu {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kFlushBits = 0x8040;  // flush to zero, denormals are zero
uint64_t read_rounding() { return _mm_getcsr(); }
void write_rounding(uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlushBits = uint64_t{1} << 24;
uint64_t read_rounding() {
  uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void write_rounding(uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
constexpr uint64_t kFlushBits = 0;
uint64_t read_rounding() { return 0; }
void write_rounding(uint64_t) {}
#endif

void set_flush() {
  const uint64_t value = read_rounding();
  if ((value & kFlushBits) != kFlushBits) write_rounding(value | kFlushBits);
}

// Threads of this host thread's team that flush denormals. OpenMP lets threads of a team go when a
// smaller one is asked for, so a change of size prepares again.
thread_local int prepared_threads = 0;

}  // namespace

FlushDenormals::FlushDenormals() : before_(read_rounding()) { set_flush(); }
FlushDenormals::~FlushDenormals() {
  if (read_rounding() != before_) write_rounding(before_);
}

KeepDenormals::KeepDenormals() : before_(read_rounding()) {
  if ((before_ & kFlushBits) != 0) write_rounding(before_ & ~kFlushBits);
}
KeepDenormals::~KeepDenormals() {
  if (read_rounding() != before_) write_rounding(before_);
}

TeamScope::TeamScope(int threads) : threads_before_(omp_get_max_threads()) {
  omp_set_dynamic(0);
  if (threads_before_ != threads) omp_set_num_threads(threads);
  if (threads > 1 && prepared_threads != threads) {
#pragma omp parallel num_threads(threads)
    set_flush();
    prepared_threads = threads;
  }
}
TeamScope::~TeamScope() {
  const int now = omp_get_max_threads();
  if (threads_before_ != now) omp_set_num_threads(threads_before_);
}

namespace threads_impl {

void run_parts(int parts, PartFunction function, const void* body) noexcept {
#pragma omp parallel num_threads(parts)
  {
    const FlushDenormals flush;
    // A system that hands out fewer threads changes who computes a part, not what it is.
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) {
      function(body, part);
    }
  }
}

}  // namespace threads_impl
}  // namespace plimsoll::backend::cpu
