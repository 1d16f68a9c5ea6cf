#pragma once

// Orders the nodes of a stretch of the loop nest so that little is alive at once.
//
// A list scheduler: of the nodes whose predecessors are done one is taken by a rule, on the bytes
// that it adds to and takes from what is alive. No rule is best everywhere, so the search tries all
// of them and scores the true schedules.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plan/facts/dependencies.h"

namespace plimsoll::plan {

enum class OrderRule : uint8_t {
  kGraph,      // as the graph has them
  kFreeFirst,  // whatever frees bytes or adds none, the most first; else as the graph has them
  kSmallest,   // what adds least
};
std::string_view to_string(OrderRule rule);

// A stretch of nodes: outside of loops (slice and extent 0), or in a loop over `extent` rows.
struct Stretch {
  std::vector<graph::NodeId> nodes;
  int64_t slice = 0;
  int64_t extent = 0;
  friend bool operator==(const Stretch&, const Stretch&) = default;
};

// Reorders the nodes inside each stretch; the stretches are in their final order.
void order_stretches(const ProgramFacts& facts, const Dependencies& dependencies, OrderRule rule,
                     std::span<Stretch> stretches);

}  // namespace plimsoll::plan
