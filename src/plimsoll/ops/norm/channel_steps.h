#pragma once

// Statistics of several steps at once: channels that lie as (step, channel), while the moving ones
// are those of one step and move once for each, in order.

#include <cstdint>
#include <string>

#include "ops/rules.h"

namespace plimsoll::ops {

inline int64_t steps_of(int64_t channels, int64_t channels_of_one) {
  if (channels_of_one < 1 || channels % channels_of_one != 0) {
    refuse("moving statistics of the channels, or of those of one of several steps",
           std::to_string(channels_of_one) + " of " + std::to_string(channels),
           "Check the node's operands.");
  }
  return channels / channels_of_one;
}

}  // namespace plimsoll::ops
