#include "plan/search/trial.h"

#include <algorithm>

#include "plan/core/walk.h"
#include "plan/place/in_place.h"
#include "plan/search/phases.h"
#include "plan/tree/complete.h"
#include "plan/tree/moves.h"
#include "plan/tree/spill_placement.h"
#include "plan/tree/tree.h"

namespace plimsoll::plan {

Trials::Trials(ProgramFacts& facts, std::span<const StatePlacement> states,
               const PlanOptions& options, const Phasing& phasing)
    : facts_(facts),
      states_(states),
      spilled_(has_spilled_states(facts.graph(), states)),
      options_(options),
      dependencies_(find_dependencies(facts, phasing.axis)),
      slots_(find_slots(facts, dependencies_, phasing.deferred_updates)),
      phase_of_(facts.graph().nodes.size(), -1) {
  for (size_t s = 1; s < slots_.size(); s += 2) {
    for (graph::NodeId node : slots_[s]) phase_of_[node.index()] = static_cast<int>(s / 2);
  }
}

ProgramPlan Trials::build(const Schedule& schedule) {
  const bool known = !tree_.name.empty() && schedule.shapes == last_.shapes &&
                     schedule.rule == last_.rule && schedule.reread == last_.reread &&
                     schedule.reload == last_.reload;
  if (!known) {
    const LoopNest loop_nest =
        make_loop_nest(facts_, dependencies_, slots_, schedule.shapes, schedule.rule);
    tree_ = build_tree(loop_nest, facts_, {.reread = schedule.reread});
    if (spilled_) load_states(facts_, states_, schedule.reload, tree_);
    last_ = {schedule.shapes, schedule.rule, schedule.reread, {}, schedule.reload};
  }
  ProgramPlan plan = tree_;
  apply_cuts(schedule.cuts, facts_, dependencies_, plan);
  if (!spilled_) {
    size(plan);
  } else {
    ProgramPlan stored = plan;
    store_states(facts_, states_, options_.least_moved, {}, stored);
    size(stored);
    const std::vector<graph::NodeId> whole = find_whole_updates(stored, schedule.room);
    if (whole.empty()) {
      plan = std::move(stored);
    } else {
      store_states(facts_, states_, options_.least_moved, whole, plan);
      size(plan);
    }
  }
  if (spilled_ || options_.move) draw_apart(facts_, plan, schedule.room);
  return plan;
}

void Trials::size(ProgramPlan& plan) {
  complete_sizes(plan, facts_);
  if (options_.in_place) reuse_in_place(facts_, dependencies_, plan);
}

std::vector<Bytes> Trials::find_phase_loads(const ProgramPlan& plan,
                                            const std::vector<Buffer>& buffers) const {
  if (phase_count() < 2) return std::vector<Bytes>(phase_count());
  std::vector<Interval> windows(phase_count(), {std::numeric_limits<int64_t>::max(), 0});
  walk_items(plan, [&](const Item& item, int64_t number, LoopId) {
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr || phase_of_[call->node.index()] < 0) return;
    Interval& window = windows[static_cast<size_t>(phase_of_[call->node.index()])];
    window.begin = std::min(window.begin, number);
    window.end = std::max(window.end, number + 1);
  });
  std::vector<Bytes> loads;
  loads.reserve(phase_count());
  const std::vector<int64_t> profile = find_profile(buffers);
  for (const Interval& window : windows) {
    int64_t most = 0;
    for (int64_t i = window.begin; i < window.end; ++i) {
      most = std::max(most, profile[static_cast<size_t>(i)]);
    }
    loads.push_back(Bytes(most));
  }
  return loads;
}

}  // namespace plimsoll::plan
