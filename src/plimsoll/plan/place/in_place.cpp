#include "plan/place/in_place.h"

#include <algorithm>

#include "plan/core/walk.h"
#include "plan/facts/liveness.h"

namespace plimsoll::plan {
namespace {

class InPlacePass {
 public:
  InPlacePass(const ProgramFacts& facts, const Dependencies& dependencies, ProgramPlan& plan)
      : facts_(facts),
        dependencies_(dependencies),
        plan_(plan),
        live_(find_lives(plan)),
        taken_(plan.instances.size()) {
    find_update_loops();
  }

  void run() {
    walk_items(plan_, [this](const Item& item, int64_t number, LoopId around) {
      if (const auto* call = std::get_if<Call>(&item)) visit(*call, number, around);
    });
  }

 private:
  // A loop of the root over rows of state variables.
  struct UpdateLoop {
    int64_t end = 0;  // the number after it
    std::vector<InstanceId> read;
  };

  void find_update_loops() {
    update_loops_.resize(plan_.loops.size());
    std::vector<Interval> numbers;
    for (size_t i = 0; i < plan_.items.size(); ++i) {
      const auto* enter = std::get_if<Enter>(&plan_.items[i]);
      if (enter == nullptr || !plan_.loops[enter->loop.index()].axis.of_states()) continue;
      if (numbers.empty()) numbers = number_root_items(plan_);
      UpdateLoop& loop = update_loops_[enter->loop.index()];
      loop.end = numbers[i].end;
      for (const Item& item : plan_.loops[enter->loop.index()].items) {
        const auto* call = std::get_if<Call>(&item);
        if (call == nullptr) continue;
        loop.read.insert(loop.read.end(), call->inputs.begin(), call->inputs.end());
      }
    }
  }

  void visit(const Call& call, int64_t number, LoopId around) {
    for (const graph::Alias& alias : facts_.aliases(call.node)) {
      const InstanceId source = call.inputs[static_cast<size_t>(alias.input)];
      const InstanceId target = call.outputs[static_cast<size_t>(alias.output)];
      if (!target.valid() || plan_.instances[target.index()].in_place.valid()) continue;
      if (std::ranges::count(call.inputs, source) != 1 || taken_[source.index()]) continue;
      if (!dies_at(source, number, around) || !fits(source, target)) continue;
      if (!cuts_alike(call, alias)) continue;
      plan_.instances[target.index()].in_place = source;
      plan_.instances[target.index()].space = plan_.instances[source.index()].space;
      taken_[source.index()] = true;
    }
  }

  // What an update overwrites row by row dies with the loop over its rows, where no other call in
  // there reads it.
  bool dies_at(InstanceId source, int64_t number, LoopId around) const {
    const LoopId scope = plan_.instances[source.index()].scope;
    const int64_t end = live_[source.index()].end;
    if (scope == around) return end == number + 1;
    if (!around.valid() || scope.valid()) return false;
    const UpdateLoop& loop = update_loops_[around.index()];
    return end == loop.end && std::ranges::count(loop.read, source) == 1;
  }

  bool fits(InstanceId source, InstanceId target) const {
    const Instance& from = plan_.instances[source.index()];
    const Instance& to = plan_.instances[target.index()];
    if (to.scope != from.scope || from.bytes != to.bytes || !from.form.empty()) return false;
    if (from.space == Space::kArena) return true;
    // Of state memory only the incoming value is given away, and only to what is written there.
    const graph::Value& value = facts_.graph().value(from.value);
    return from.space == Space::kState && value.kind == graph::ValueKind::kState &&
           dependencies_.updates[value.state.index()] == to.value;
  }

  // Each axis that is done in several blocks cuts both in the same rows without overlap.
  bool cuts_alike(const Call& call, const graph::Alias& alias) const {
    const std::vector<graph::Axis>& axes = facts_.axes(call.node);
    for (size_t a = 0; a < axes.size(); ++a) {
      const graph::AxisUse& in = axes[a].inputs[static_cast<size_t>(alias.input)];
      const graph::AxisUse& out = axes[a].outputs[static_cast<size_t>(alias.output)];
      if (in == out && in.dimension >= 0 && in.before + in.after < in.stride) continue;
      const bool one_block = facts_.block(call.node)[a] >= facts_.extent(call.node, a) &&
                             facts_.lane(call.node, a) == 0;
      if (!one_block || may_be_cut(call, axes, a)) return false;
    }
    return true;
  }

  // Rows of a row-exact axis may come in any number.
  bool may_be_cut(const Call& call, const std::vector<graph::Axis>& axes, size_t axis) const {
    const bool rows =
        axes[axis].kind == graph::AxisKind::kMap || axes[axis].kind == graph::AxisKind::kWindow;
    return rows && facts_.catalog().row_exact(facts_.graph(), call.node, static_cast<int>(axis));
  }

  const ProgramFacts& facts_;
  const Dependencies& dependencies_;
  ProgramPlan& plan_;
  std::vector<Interval> live_;
  std::vector<UpdateLoop> update_loops_;  // by loop; of others nothing is read
  std::vector<bool> taken_;
};

}  // namespace

void reuse_in_place(const ProgramFacts& facts, const Dependencies& dependencies,
                    ProgramPlan& plan) {
  InPlacePass(facts, dependencies, plan).run();
}

}  // namespace plimsoll::plan
