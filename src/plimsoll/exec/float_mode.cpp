#include "exec/float_mode.h"

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

FloatModeGuard::FloatModeGuard() : mode_(read_mode()) { write_mode(mode_ | kFlush); }

FloatModeGuard::~FloatModeGuard() { write_mode(mode_); }

}  // namespace plimsoll::exec
