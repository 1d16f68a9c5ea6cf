#include "plan/facts/loop_chains.h"

#include <algorithm>

#include "plan/core/extents.h"
#include "plan/core/walk.h"

namespace plimsoll::plan {

bool LoopChains::decide_bytes(const ProgramPlan& plan) {
  return std::ranges::all_of(plan.loops, [](const Loop& loop) { return loop.axis.of_samples(); });
}

std::optional<std::vector<ChainId>> LoopChains::number(const ProgramPlan& plan) {
  bool bound = false;
  walk_items(plan, [&](const Item& item, int64_t, LoopId) {
    const auto* call = std::get_if<Call>(&item);
    bound = bound || (call != nullptr && !call->bindings.empty());
  });
  if (bound) return std::nullopt;
  const std::vector<LoopId> parents = find_parents(plan);
  std::vector<ChainId> chains(plan.loops.size());
  for (size_t l = 0; l < chains.size(); ++l) {  // a parent stands before its children
    const Loop& loop = plan.loops[l];
    const std::tuple key(at(chains, parents[l]), loop.axis, loop.extent, loop.slice);
    chains[l] = known_.try_emplace(key, static_cast<ChainId>(known_.size() + 1)).first->second;
  }
  return chains;
}

}  // namespace plimsoll::plan
