#pragma once

// The largest batch that fits, in few questions: each is a search for a plan.
//
// From a batch on that fits its size is doubled; once that has been done the largest of all is
// asked for, since the batch may not be what binds. Then halving. What fits is taken to fit with
// half as many samples too.

#include <cstdint>
#include <functional>
#include <optional>

namespace plimsoll::planning {

// `known` fits; 0: none is known to. nullopt: not even 1 does, or the largest does of known, twice
// that, four times, … up to `most`.
std::optional<int64_t> find_largest_batch(int64_t known, int64_t most,
                                          const std::function<bool(int64_t)>& fits);

}  // namespace plimsoll::planning
