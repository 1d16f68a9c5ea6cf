#include <algorithm>
#include <limits>
#include <map>

#include "plan/core/walk.h"
#include "plan/facts/liveness.h"
#include "plan/search/planner.h"

namespace plimsoll::plan {
namespace {

// Bytes by layer and kind.
using Tally = std::map<std::pair<std::string, std::string>, Bytes>;

const ProgramPlan* find_largest(const Plan& plan) {
  const auto largest = std::ranges::max_element(plan.programs, {}, &ProgramPlan::arena_bytes);
  return largest == plan.programs.end() ? nullptr : &*largest;
}

std::string kind_of(const graph::StateVariable& state) {
  switch (state.role) {
    case graph::StateRole::kOptimizerSlot:
    case graph::StateRole::kCounter:
    case graph::StateRole::kHyperparameter:
      return "optimizer";
    case graph::StateRole::kMetric:
      return "metrics";
    case graph::StateRole::kWeight:
    case graph::StateRole::kMovingStatistic:
      break;
  }
  return "weights";
}

void add_states(const Plan& plan, const graph::ProgramSet& programs, Tally& tally) {
  std::map<std::string, Bytes> placed;
  for (const StatePlacement& state : plan.states) placed[state.name] = state.bytes;
  for (const graph::StateVariable& state : graph::states_of(programs)) {
    tally[{state.layer, kind_of(state)}] += placed[state.name];
  }
}

std::pair<std::string, std::string> describe(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  if (value.kind == graph::ValueKind::kInput) return {value.name, "input"};
  if (value.kind == graph::ValueKind::kState) {
    const graph::StateVariable& state = graph.state(value.state);
    return {state.layer, kind_of(state)};
  }
  const graph::Node& node = graph.node(value.producer);
  if (value.type.dtype == DType::kOpaque) return {node.layer, "weights"};
  switch (node.stage) {
    case graph::Stage::kBackward:
      return {node.layer, "gradients"};
    case graph::Stage::kUpdate:
      return {node.layer, "optimizer"};
    case graph::Stage::kMetric:
      return {node.layer, "metrics"};
    case graph::Stage::kForward:
    case graph::Stage::kLoss:
      break;
  }
  return {node.layer, "activations"};
}

void add_program(const ProgramPlan& program, const graph::Graph& graph, Tally& tally) {
  const std::vector<Buffer> buffers = find_buffers(program);
  int64_t when = -1;
  (void)find_load(buffers, {0, std::numeric_limits<int64_t>::max()}, &when);
  std::map<int64_t, graph::NodeId> calls;
  walk_items(program, [&](const Item& item, int64_t number, LoopId) {
    if (const auto* call = std::get_if<Call>(&item)) calls[number] = call->node;
  });
  for (const Buffer& buffer : buffers) {
    if (when < buffer.live.begin || when >= buffer.live.end) continue;
    if (buffer.instances.empty()) {
      tally[{graph.node(calls.at(buffer.scratch_of)).layer, "scratch"}] += buffer.bytes;
    } else {
      const graph::ValueId value = program.instances[buffer.instances.front().index()].value;
      tally[describe(graph, value)] += buffer.bytes;
    }
  }
}

}  // namespace

std::vector<Culprit> find_culprits(const Plan& plan, const graph::ProgramSet& programs) {
  Tally tally;
  add_states(plan, programs, tally);
  if (const ProgramPlan* program = find_largest(plan)) {
    const graph::Program* source = graph::find_program(programs, program->name);
    if (source != nullptr) add_program(*program, source->graph, tally);
  }
  std::vector<Culprit> culprits;
  for (const auto& [what, bytes] : tally) {
    if (bytes > Bytes()) culprits.push_back({what.first, bytes, what.second});
  }
  std::ranges::stable_sort(culprits,
                           [](const Culprit& a, const Culprit& b) { return b.bytes < a.bytes; });
  return culprits;
}

}  // namespace plimsoll::plan
