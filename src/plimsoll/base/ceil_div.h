#pragma once

// Counts in whole parts.

#include <cstdint>

namespace plimsoll {

// How many of `by` hold `count`, which is not negative; `by` is positive.
constexpr int64_t ceil_div(int64_t count, int64_t by) { return (count + by - 1) / by; }
// The next multiple of `each`.
constexpr int64_t round_up(int64_t count, int64_t each) { return ceil_div(count, each) * each; }

// The next multiple of a cache line.
constexpr int64_t round_up_to_line(int64_t bytes) { return round_up(bytes, 64); }

}  // namespace plimsoll
