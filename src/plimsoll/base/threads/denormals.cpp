#include "base/threads/denormals.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace plimsoll {
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

}  // namespace plimsoll
