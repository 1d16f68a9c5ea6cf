#pragma once

// Visits the items of a plan's tree in the order in which they stand, with the numbers of
// plan/facts/liveness.h. Each loop must be entered once: nothing here guards against a tree that is
// none.

#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "plan/core/plan.h"

namespace plimsoll::plan {

// Calls visit(item, number, around) for every item that is no loop; `around` is the loop whose body
// the item stands in, invalid for the root. Program is ProgramPlan or const ProgramPlan.
template <typename Program, typename Visit>
void walk_items(Program& program, Visit&& visit) {
  int64_t number = 0;
  const auto walk = [&](const auto& self, auto& items, LoopId around) -> void {
    for (auto& item : items) {
      const int64_t here = number++;
      if (const auto* enter = std::get_if<Enter>(&item)) {
        self(self, program.loops[enter->loop.index()].items, enter->loop);
        ++number;
      } else {
        visit(item, here, around);
      }
    }
  };
  walk(walk, program.items, LoopId());
}

}  // namespace plimsoll::plan
