#include "plan/tree/complete.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "graph/lanes.h"
#include "plan/core/extents.h"
#include "plan/core/state_places.h"
#include "plan/core/walk.h"
#include "plan/facts/estimate.h"
#include "plan/place/placement.h"
#include "plan/tree/structure.h"

namespace plimsoll::plan {
namespace {

[[noreturn]] void fail(const std::string& expected, const std::string& received) {
  throw Error(ErrorKind::kConfig, "plan: expected " + expected + ", received " + received + ".");
}

void check_programs(const Plan& plan, const graph::ProgramSet& programs,
                    const graph::KernelCatalog& catalog) {
  if (!plan.kernel_set.empty() && plan.kernel_set != catalog.kernel_set()) {
    fail("kernel set " + catalog.kernel_set(), plan.kernel_set);
  }
  if (plan.programs.size() != programs.programs.size()) {
    fail(fmt::format("{} programs", programs.programs.size()),
         std::to_string(plan.programs.size()));
  }
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    if (plan.programs[p].name != programs.programs[p].name) {
      fail("program " + programs.programs[p].name, plan.programs[p].name);
    }
  }
}

// An instance lies in a state variable's memory when it is the incoming value as nobody writes it,
// or takes that memory over.
void find_state_instances(ProgramPlan& plan, const graph::Graph& graph) {
  std::vector<bool> written(plan.instances.size());
  walk_items(plan, [&](const Item& item, int64_t, LoopId) {
    if (const auto* encode = std::get_if<Encode>(&item)) written[encode->target.index()] = true;
    if (const auto* begin = std::get_if<BeginTransfer>(&item))
      written[begin->target.index()] = true;
  });
  for (size_t i = 0; i < plan.instances.size(); ++i) {
    const graph::Value& value = graph.value(plan.instances[i].value);
    const bool in_file = plan.instances[i].space == Space::kSpill;
    if (value.kind == graph::ValueKind::kState && !written[i] && !in_file) {
      plan.instances[i].space = Space::kState;
    }
  }
  // An in-place reuse may stand before what it reuses: as often as anything changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (Instance& instance : plan.instances) {
      if (!instance.in_place.valid() || instance.space == Space::kState) continue;
      if (plan.instances[instance.in_place.index()].space != Space::kState) continue;
      instance.space = Space::kState;
      changed = true;
    }
  }
}

using Chains = std::optional<std::vector<ChainId>>;

// Bytes of plain instances follow from value and loops; of others the rules are asked.
void complete_bytes(ProgramPlan& plan, const Chains& chains, ProgramFacts& facts) {
  std::vector<InstanceRule> rules;
  const auto work_out = [&](size_t i) {
    if (rules.empty()) rules = find_instance_rules(plan, facts.graph(), facts.axes());
    const Instance& instance = plan.instances[i];
    return instance_bytes(facts.graph().value(instance.value).type, instance.form,
                          largest_rows(rules[i], plan));
  };
  for (size_t i = 0; i < plan.instances.size(); ++i) {
    Instance& instance = plan.instances[i];
    if (!chains) {
      instance.bytes = work_out(i);
      continue;
    }
    const LoopId scope = instance.space == Space::kState ? LoopId() : instance.scope;
    const size_t form = instance.form.empty() ? 0 : facts.form_number(instance.form);
    std::optional<Bytes>& known =
        facts.value_bytes().at(form * facts.graph().values.size() + instance.value.index(),
                               LoopChains::at(*chains, scope));
    if (!known) known = work_out(i);
    instance.bytes = *known;
  }
}

// Where a sum over lanes is folded, its partial sums have room.
void add_partials(ProgramPlan& plan, const ProgramFacts& facts) {
  walk_items(plan, [&](const Item& item, int64_t, LoopId) {
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr) return;
    for (InstanceId id : call->outputs) {
      if (!id.valid()) continue;
      Instance& sum = plan.instances[id.index()];
      sum.bytes = graph::bytes_of_partials(sum.bytes, facts.partials(sum.value));
    }
  });
}

void complete_scratch(ProgramPlan& plan, const Chains& chains, ProgramFacts& facts) {
  const std::vector<LoopId> parents = find_parents(plan);
  const auto is_plain = [&](InstanceId id) { return plan.instances[id.index()].form.empty(); };
  walk_items(plan, [&](Item& item, int64_t, LoopId around) {
    auto* call = std::get_if<Call>(&item);
    if (call == nullptr) return;
    call->scratch_offset = Bytes();
    const bool plain = std::ranges::all_of(call->inputs, is_plain);
    if (plain && chains) {
      call->scratch_bytes =
          find_call_cost(plan, parents, around, *call, LoopChains::at(*chains, around), facts)
              .scratch;
      return;
    }
    std::vector<std::string> forms;
    for (InstanceId id : call->inputs) {
      if (!plain) forms.push_back(plan.instances[id.index()].form);
    }
    call->scratch_bytes =
        facts.scratch(call->node, find_call_lengths(plan, parents, around, *call, facts), forms);
  });
}

// The state variable whose memory the instance lies in; invalid: none's.
graph::StateId find_state_of(const ProgramPlan& plan, const graph::Graph& graph,
                             std::span<const graph::StateId> written, const Instance& instance) {
  const Instance* owner = &instance;
  for (size_t hops = 0; owner->in_place.valid() && hops < plan.instances.size(); ++hops) {
    owner = &plan.instances[owner->in_place.index()];
  }
  const graph::Value& value = graph.value(owner->value);
  return value.kind == graph::ValueKind::kState ? value.state : written[owner->value.index()];
}

void complete_states(ProgramPlan& plan, const graph::Graph& graph,
                     std::span<const StatePlacement* const> places) {
  const std::vector<graph::StateId> written = find_written(graph);
  for (Instance& instance : plan.instances) {
    if (instance.space != Space::kState) continue;
    const graph::StateId state = find_state_of(plan, graph, written, instance);
    if (!state.valid()) {
      fail("space=state for the values of state variables only",
           graph.value(instance.value).name + " of program " + plan.name);
    }
    const StatePlacement* placed = places[state.index()];
    PLIMSOLL_CHECK(placed != nullptr, "every state of the set has a place");
    if (placed->space != Space::kState) {
      fail("transfers from and to the spill file for state " + graph.state(state).name,
           "a use of its memory in program " + plan.name);
    }
    instance.offset = placed->offset;
    instance.bytes = placed->bytes;
  }
}

// Per value: the place in the spill file of the state variable whose incoming or outgoing value
// it is, of the first one; null: none.
std::vector<const StatePlacement*> find_places_in_file(
    const graph::Graph& graph, std::span<const StatePlacement* const> places) {
  std::vector<const StatePlacement*> found(graph.values.size(), nullptr);
  for (size_t s = 0; s < graph.states.size(); ++s) {
    const graph::StateVariable& state = graph.states[s];
    if (places[s] == nullptr || places[s]->space != Space::kSpill) continue;
    const auto note = [&](graph::ValueId value) {
      if (value.valid() && found[value.index()] == nullptr) found[value.index()] = places[s];
    };
    note(state.incoming);
    if (state.write.valid()) note(graph.node(state.write).inputs[0]);
  }
  return found;
}

Bytes complete_spill(ProgramPlan& plan, const graph::Graph& graph,
                     std::span<const StatePlacement> states,
                     std::span<const StatePlacement* const> places) {
  Bytes base;
  for (const StatePlacement& state : states) {
    if (state.space == Space::kSpill) {
      base = max(base, round_up(state.offset + state.bytes, kSpillAlignment));
    }
  }
  std::vector<Buffer> buffers = find_buffers(plan, Space::kSpill);
  if (buffers.empty()) return base;
  const std::vector<const StatePlacement*> in_file = find_places_in_file(graph, places);
  std::erase_if(buffers, [&](const Buffer& buffer) {
    Instance& instance = plan.instances[buffer.instances.front().index()];
    const StatePlacement* place = in_file[instance.value.index()];
    if (place != nullptr) instance.offset = place->offset;
    return place != nullptr;
  });
  if (buffers.empty()) return base;
  for (Buffer& buffer : buffers) buffer.bytes = round_up(buffer.bytes, kSpillAlignment);
  const PlacementResult placed = place_buffers(buffers, Bytes(), false);
  for (size_t b = 0; b < buffers.size(); ++b) {
    for (InstanceId id : buffers[b].instances) {
      plan.instances[id.index()].offset = base + placed.offsets[b];
    }
  }
  return base + round_up(placed.region, kSpillAlignment);
}

}  // namespace

void place_states(const graph::ProgramSet& programs, Bytes gap,
                  const std::set<std::string>& spilled, Plan& plan) {
  plan.states.clear();
  plan.state_bytes = Bytes();
  plan.spill_bytes = Bytes();
  for (const graph::StateVariable& state : graph::states_of(programs)) {
    const Bytes bytes = tensor_bytes(state.type.dtype, state.type.shape, 1);
    if (spilled.contains(state.name)) {
      plan.states.push_back({state.name, plan.spill_bytes, bytes, Space::kSpill});
      plan.spill_bytes += round_up(bytes, kSpillAlignment);
      continue;
    }
    plan.states.push_back({state.name, plan.state_bytes, bytes});
    plan.state_bytes += round_up(bytes + gap, kAlignment);
  }
}

void complete_sizes(ProgramPlan& plan, ProgramFacts& facts) {
  plan.blocks = facts.blocks();
  plan.batch = facts.batch();
  plan.lane = facts.lane();
  find_state_instances(plan, facts.graph());
  find_scopes(plan, facts.axes());
  const Chains chains = facts.chains().number(plan);
  complete_bytes(plan, LoopChains::decide_bytes(plan) ? chains : std::nullopt, facts);
  if (plan.lane > 0) add_partials(plan, facts);
  complete_scratch(plan, chains, facts);
}

Bytes complete_offsets(ProgramPlan& plan, const graph::Graph& graph,
                       std::span<const StatePlacement> states, std::span<const Buffer> buffers,
                       const CompleteOptions& options) {
  const std::vector<const StatePlacement*> places = find_places(graph, states);
  complete_states(plan, graph, places);
  const PlacementResult placed = options.share_memory
                                     ? place_buffers(buffers, options.gap, options.several_placers)
                                     : place_apart(buffers, options.gap);
  apply_placement(placed, buffers, plan);
  plan.arena_bytes = placed.region;
  return complete_spill(plan, graph, states, places);
}

void complete_totals(Plan& plan, const graph::ProgramSet& programs,
                     const graph::KernelCatalog& catalog) {
  plan.kernel_set = catalog.kernel_set();
  plan.block_set = catalog.block_set();
  plan.parts = catalog.part_count();
  plan.lanes = programs.programs.empty() ? 1 : programs.programs.front().lanes;
  plan.fingerprint = graph::fingerprint(programs);
  plan.arena_bytes = plan.state_bytes;
  for (const ProgramPlan& program : plan.programs) {
    plan.arena_bytes = max(plan.arena_bytes, plan.state_bytes + program.arena_bytes);
  }
}

void complete_plan(Plan& plan, const graph::ProgramSet& programs,
                   const graph::KernelCatalog& catalog, const CompleteOptions& options) {
  check_programs(plan, programs, catalog);
  std::set<std::string> spilled;
  for (const StatePlacement& state : plan.states) {
    if (state.space == Space::kSpill) spilled.insert(state.name);
  }
  place_states(programs, options.gap, spilled, plan);
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    ProgramPlan& program = plan.programs[p];
    ProgramFacts facts(programs.programs[p], catalog);
    check_structure(program, facts);
    program.batch = facts.batch();
    program.lane = facts.lane();
    find_loop_extents(program, facts);
    complete_sizes(program, facts);
    plan.spill_bytes = max(plan.spill_bytes, complete_offsets(program, facts.graph(), plan.states,
                                                              find_buffers(program), options));
  }
  complete_totals(plan, programs, catalog);
}

}  // namespace plimsoll::plan
