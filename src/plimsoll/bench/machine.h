#pragma once

// What this machine can do at most, measured in a fraction of a second: multiply-adds in registers,
// and memory read and written past the caches. Times of kernels are held against it.
//
// Figures are of this moment: a neighbour on the machine lowers them. They are shown to people and
// decide nothing. It touches no kernel of ours, so that a slow kernel cannot lower its own limit.

#include <optional>

#include "base/bytes.h"
#include "report/profile.h"

namespace plimsoll::bench {

// With `threads` threads (0: what the process may use). The bandwidth needs memory several times as
// large as the last cache; where `room` is less than twice that cache it is left out (0).
report::MachineSpeed measure_machine(int threads, std::optional<Bytes> room);

// What this process may still take: below its limit, or below 80 % of what the system lets it have.
Bytes room_within(std::optional<Bytes> limit);

}  // namespace plimsoll::bench
