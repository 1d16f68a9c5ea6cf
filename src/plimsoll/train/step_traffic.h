#pragma once

// What goes between ranks in the steps of a fit, and how long this one waits for the others.
// Validation is apart.

#include <cstdint>

#include "base/ranks.h"

namespace plimsoll::train {

struct StepTraffic {
  Sent sent;
  double waited_seconds = 0;
  int64_t steps = 0;

  // Adds what a step sent and waited, from what there was before it and after it.
  void add_step(const StepTraffic& before, const StepTraffic& after) {
    sent += after.sent - before.sent;
    waited_seconds += after.waited_seconds - before.waited_seconds;
    ++steps;
  }
};

// Since the ranks have joined; null: nobody.
inline StepTraffic traffic_of(const Ranks* ranks) {
  return ranks == nullptr ? StepTraffic() : StepTraffic{ranks->sent(), ranks->waited_seconds(), 0};
}

}  // namespace plimsoll::train
