#include "plan/tree/spill_placement.h"

#include <algorithm>
#include <map>

#include "base/shape.h"
#include "plan/core/state_places.h"
#include "plan/core/tree_editor.h"
#include "plan/core/walk.h"
#include "plan/tree/complete.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;
using graph::ValueKind;
using Index = TreeEditor::Index;

// Variables that transfers cannot bring in and out: of the batch, or written with a value that is
// none of their own.
std::set<std::string> find_fixed(const graph::ProgramSet& programs) {
  std::set<std::string> fixed;
  for (const graph::Program& program : programs.programs) {
    std::map<ValueId, std::string> writers;
    for (const graph::StateVariable& state : program.graph.states) {
      if (state.type.shape.has_batch()) fixed.insert(state.name);
      if (!state.write.valid()) continue;
      const ValueId value = program.graph.node(state.write).inputs[0];
      if (program.graph.value(value).kind != ValueKind::kNode) fixed.insert(state.name);
      const auto [other, first] = writers.emplace(value, state.name);
      if (!first) fixed.insert({state.name, other->second});
    }
  }
  return fixed;
}

}  // namespace

std::vector<StateGroup> find_state_groups(const graph::ProgramSet& programs, Bytes least) {
  const std::vector<graph::StateVariable> states = graph::states_of(programs);
  std::map<std::string, size_t> group_of;
  std::vector<std::vector<size_t*>> members(states.size());  // by group
  for (size_t s = 0; s < states.size(); ++s) {
    size_t& group = group_of[states[s].name];
    group = s;
    members[s] = {&group};
  }
  const auto join = [&](size_t from, size_t to) {
    for (size_t* group : members[from]) *group = to;
    members[to].insert(members[to].end(), members[from].begin(), members[from].end());
    members[from].clear();
  };
  for (const graph::Program& program : programs.programs) {
    std::map<NodeId, size_t> by_update;
    for (const graph::StateVariable& state : program.graph.states) {
      if (!state.write.valid() || !state.incoming.valid()) continue;
      const graph::Value& value = program.graph.value(program.graph.node(state.write).inputs[0]);
      if (value.kind != ValueKind::kNode) continue;
      const auto [at, added] = by_update.emplace(value.producer, group_of[state.name]);
      if (!added && at->second != group_of[state.name]) join(group_of[state.name], at->second);
    }
  }
  const std::set<std::string> fixed = find_fixed(programs);
  std::map<size_t, StateGroup> groups;
  for (const graph::StateVariable& state : states) {
    if (fixed.contains(state.name)) continue;
    StateGroup& group = groups[group_of[state.name]];
    group.names.push_back(state.name);
    group.bytes += tensor_bytes(state.type.dtype, state.type.shape, 1);
  }
  std::vector<StateGroup> result;
  for (auto& [first, group] : groups) {
    if (group.bytes >= least) result.push_back(std::move(group));
  }
  std::ranges::stable_sort(
      result, [](const StateGroup& a, const StateGroup& b) { return a.bytes > b.bytes; });
  return result;
}

namespace {

struct Movable {
  std::string name;
  int64_t bytes = 0;
  bool slot = false;
};

// Slots first: a step reads and writes them once, weights once for each pass over a part of the
// batch. Of both those of the largest groups first.
std::vector<Movable> find_movable(const graph::ProgramSet& programs, Bytes least) {
  std::map<std::string, graph::StateVariable> states;
  for (graph::StateVariable& state : graph::states_of(programs)) {
    states.emplace(state.name, std::move(state));
  }
  std::vector<Movable> movable;
  for (const StateGroup& group : find_state_groups(programs, least)) {
    for (const std::string& name : group.names) {
      const graph::StateVariable& state = states.at(name);
      movable.push_back({name, tensor_bytes(state.type.dtype, state.type.shape, 1).count(),
                         state.role == graph::StateRole::kOptimizerSlot});
    }
  }
  std::stable_partition(movable.begin(), movable.end(),
                        [](const Movable& each) { return each.slot; });
  return movable;
}

}  // namespace

std::vector<std::set<std::string>> make_spill_placements(const graph::ProgramSet& programs,
                                                         Bytes least) {
  const std::vector<Movable> movable = find_movable(programs, least);
  int64_t slots = 0;
  int64_t weights = 0;
  for (const Movable& each : movable) (each.slot ? slots : weights) += each.bytes;
  const std::vector<int64_t> marks =
      slots > 0
          ? std::vector<int64_t>{slots / 4, slots / 2, slots, slots + weights / 2, slots + weights}
          : std::vector<int64_t>{weights / 4, weights / 2, weights * 3 / 4, weights};
  std::vector<std::set<std::string>> placements;
  std::set<std::string> spilled;
  int64_t bytes = 0;
  auto mark = marks.begin();
  for (const Movable& each : movable) {
    spilled.insert(each.name);
    bytes += each.bytes;
    if (mark == marks.end() || bytes < *mark) continue;
    placements.push_back(spilled);
    mark = std::find_if(mark, marks.end(), [&](int64_t at) { return at > bytes; });
  }
  return placements;
}

namespace {

bool is_spilled(const StatePlacement* place) {
  return place != nullptr && place->space == Space::kSpill;
}

InstanceId add_instance(ProgramPlan& plan, ValueId value, Space space) {
  Instance instance;
  instance.value = value;
  instance.space = space;
  // What stands for a variable in the file is there for ever.
  instance.scope = space == Space::kSpill ? LoopId() : kAutoScope;
  plan.instances.push_back(std::move(instance));
  return InstanceId(plan.instances.size() - 1);
}

struct Use {
  Index item = -1;
  int operand = -1;  // −1: an output item
};

void redirect(TreeEditor& editor, const Use& use, InstanceId to) {
  Item& item = editor.item(use.item);
  if (use.operand < 0) {
    std::get<Output>(item).source = to;
  } else {
    std::get<Call>(item).inputs[static_cast<size_t>(use.operand)] = to;
  }
}

}  // namespace

bool has_spilled_states(const graph::Graph& graph, std::span<const StatePlacement> states) {
  return std::ranges::any_of(find_places(graph, states), is_spilled);
}

void load_states(const ProgramFacts& facts, std::span<const StatePlacement> states, bool again,
                 ProgramPlan& plan) {
  TreeEditor editor(plan);
  std::map<ValueId, std::vector<Use>> uses;  // in the order of the tree
  for (size_t i = 0; i < editor.size(); ++i) {
    const auto index = static_cast<Index>(i);
    const Item& item = editor.entry(index).item;
    if (const auto* call = std::get_if<Call>(&item)) {
      for (size_t o = 0; o < call->inputs.size(); ++o) {
        uses[plan.instances[call->inputs[o].index()].value].push_back({index, static_cast<int>(o)});
      }
    } else if (const auto* output = std::get_if<Output>(&item)) {
      uses[plan.instances[output->source.index()].value].push_back({index, -1});
    }
  }
  // The first instance of each value.
  std::vector<InstanceId> first(facts.graph().values.size());
  for (size_t i = plan.instances.size(); i-- > 0;) {
    first[plan.instances[i].value.index()] = InstanceId(i);
  }
  const std::vector<const StatePlacement*> places = find_places(facts.graph(), states);
  int number = 0;
  for (size_t s = 0; s < places.size(); ++s) {
    const graph::StateVariable& state = facts.graph().states[s];
    if (!is_spilled(places[s])) continue;
    if (!state.incoming.valid()) {
      if (!state.write.valid()) continue;
      const InstanceId made = first[facts.graph().node(state.write).inputs[0].index()];
      if (plan.instances[made.index()].space == Space::kState) {
        plan.instances[made.index()].space = Space::kArena;
      }
      continue;
    }
    const std::vector<Use>& readers = uses[state.incoming];
    if (readers.empty()) continue;
    InstanceId copy = first[state.incoming.index()];
    plan.instances[copy.index()].space = Space::kArena;
    const InstanceId file = add_instance(plan, state.incoming, Space::kSpill);
    Index last = -1;
    for (const Use& use : readers) {
      if (last < 0 || (again && use.item != last)) {
        if (last >= 0) copy = add_instance(plan, state.incoming, Space::kArena);
        const Index where = again ? use.item : editor.item_in(use.item, LoopId());
        editor.insert_before(where, BeginTransfer{number, file, copy});
        editor.insert_before(where, WaitTransfer{number++});
      }
      last = use.item;
      redirect(editor, use, copy);
    }
  }
  editor.write_back(plan);
}

}  // namespace plimsoll::plan
