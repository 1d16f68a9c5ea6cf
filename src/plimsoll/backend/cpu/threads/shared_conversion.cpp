#include "backend/cpu/threads/shared_conversion.h"

#include "backend/cpu/simd/bfloat16.h"
#include "backend/cpu/threads/threads.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kGrain = 1024;
constexpr int64_t kBytesOfBoth = 6;  // of a number in both formats

}  // namespace

Bfloat16Conversion shared_conversion(Isa isa, int most_parts) {
  return {.widen =
              [=](const uint16_t* bits, float* numbers, int64_t count) {
                for_each_range(count, kGrain, parts_for(count * kBytesOfBoth, most_parts),
                               [&](int64_t begin, int64_t end) {
                                 widen_numbers(bits + begin, numbers + begin, end - begin, isa);
                               });
              },
          .round =
              [=](const float* numbers, uint16_t* bits, int64_t count) {
                for_each_range(count, kGrain, parts_for(count * kBytesOfBoth, most_parts),
                               [&](int64_t begin, int64_t end) {
                                 round_numbers(numbers + begin, bits + begin, end - begin, isa);
                               });
              }};
}

}  // namespace plimsoll::backend::cpu
