#include "exec/float_mode.h"

#include <omp.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace plimsoll::exec {
namespace {

#if defined(__x86_64__)
// MXCSR: bit 15 flush to zero, bit 6 denormals are zero (Intel SDM, volume 1, 10.2.3).
constexpr uint64_t kFlush = (uint64_t{1} << 15) | (uint64_t{1} << 6);
uint64_t read_mode() { return _mm_getcsr(); }
void write_mode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
// FPCR: bit 24 flushes inputs and results (Arm ARM, C5.2.8).
constexpr uint64_t kFlush = uint64_t{1} << 24;
uint64_t read_mode() {
  uint64_t mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void write_mode(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode)); }
#else
constexpr uint64_t kFlush = 0;
uint64_t read_mode() { return 0; }
void write_mode(uint64_t) {}
#endif

}  // namespace

FloatModeScope::FloatModeScope(int threads)
    : mode_(read_mode()), threads_(omp_get_max_threads()), dynamic_(omp_get_dynamic()) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
#pragma omp parallel
  write_mode(read_mode() | kFlush);
}

FloatModeScope::~FloatModeScope() {
  write_mode(mode_);
  omp_set_num_threads(threads_);
  omp_set_dynamic(dynamic_);
}

}  // namespace plimsoll::exec
