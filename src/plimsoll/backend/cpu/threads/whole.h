#pragma once

// Counts in whole grains.

#include <cstdint>

namespace plimsoll::backend::cpu {

// How many of `by` hold `count`, which is not negative; `by` is positive.
constexpr int64_t divided(int64_t count, int64_t by) { return (count + by - 1) / by; }
// The next multiple of `each`.
constexpr int64_t in_whole(int64_t count, int64_t each) { return divided(count, each) * each; }

// The next multiple of a cache line.
constexpr int64_t whole_lines(int64_t bytes) { return in_whole(bytes, 64); }

}  // namespace plimsoll::backend::cpu
