#include "planning/batch_search.h"

#include <algorithm>

namespace plimsoll::planning {

std::optional<int64_t> find_largest_batch(int64_t known, int64_t most,
                                          const std::function<bool(int64_t)>& fits) {
  if (known == 0 && !fits(1)) return std::nullopt;
  int64_t low = std::max<int64_t>(known, 1);
  if (2 * low > most) return std::nullopt;
  int64_t high = 2 * low;
  if (fits(high)) {
    low = high;
    int64_t top = low;
    while (2 * top <= most) top *= 2;
    if (top == low || fits(top)) return std::nullopt;
    for (high = 2 * low; high < top && fits(high); high *= 2) low = high;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace plimsoll::planning
