#include "plan/recipes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/walk.h"

namespace plimsoll::plan {
namespace {

using Slots = std::span<const std::vector<graph::NodeId>>;

Shapes smallest_shapes(const ProgramFacts& facts, const Dependencies& dependencies, Slots slots) {
  Shapes shapes;
  for (size_t s = 1; s < slots.size(); s += 2) {
    shapes.push_back({std::min(find_unit(dependencies, slots[s]), facts.batch()), 0});
  }
  return shapes;
}

}  // namespace

std::vector<Shapes> make_flat_shapes(const ProgramFacts& facts, const Dependencies& dependencies,
                                     Slots slots) {
  std::vector<Shapes> result = {smallest_shapes(facts, dependencies, slots)};
  const auto is_whole = [&](const PhaseShape& shape) { return shape.slice >= facts.batch(); };
  while (!std::ranges::all_of(result.back(), is_whole)) {
    Shapes next = result.back();
    for (PhaseShape& shape : next) {
      shape.slice = 2 * shape.slice >= facts.batch() ? facts.batch() : 2 * shape.slice;
    }
    result.push_back(std::move(next));
  }
  return result;
}

std::vector<Shapes> make_nested_shapes(const ProgramFacts& facts, const Dependencies& dependencies,
                                       Slots slots) {
  const Shapes smallest = smallest_shapes(facts, dependencies, slots);
  std::set<int64_t> inner;
  for (size_t s = 1; s < slots.size(); s += 2) {
    for (graph::NodeId node : slots[s]) {
      const int64_t unit = dependencies.roles[node.index()].unit;
      if (unit < smallest[s / 2].slice) inner.insert(unit);
    }
  }
  std::vector<Shapes> result;
  if (inner.size() > 1) {
    result.push_back(smallest);
    for (PhaseShape& shape : result.back()) shape.inner = kNestFully;
  }
  for (int64_t slice : inner) {
    result.push_back(smallest);
    for (PhaseShape& shape : result.back()) {
      if (slice < shape.slice) shape.inner = slice;
    }
  }
  return result;
}

std::vector<Cut> make_checkpoints(const ProgramFacts& facts, const Dependencies& dependencies,
                                  size_t segments) {
  const graph::Graph& graph = facts.graph();
  std::vector<graph::NodeId> forward;
  graph::NodeId anchor;
  for (graph::NodeId node : dependencies.order) {
    const graph::Stage stage = graph.node(node).stage;
    if (stage == graph::Stage::kForward) forward.push_back(node);
    if (stage == graph::Stage::kBackward && !anchor.valid()) anchor = node;
  }
  if (!anchor.valid()) return {};
  std::vector<size_t> segment_of(graph.nodes.size(), segments);  // of other stages: none
  for (size_t i = 0; i < forward.size(); ++i) {
    segment_of[forward[i].index()] = i * segments / forward.size();
  }
  std::vector<Cut> cuts;
  for (graph::NodeId node : forward) {
    for (graph::ValueId output : graph.node(node).outputs) {
      if (!is_carried(facts, dependencies, output) || !dependencies.repeatable[output.index()]) {
        continue;
      }
      const auto crosses = [&](graph::NodeId user) {
        const size_t segment = segment_of[user.index()];
        return segment < segments && segment != segment_of[node.index()];
      };
      if (std::ranges::any_of(facts.users()[output.index()], crosses)) continue;
      cuts.push_back({output, anchor, CutKind::kRecompute, ""});
    }
  }
  return cuts;
}

std::vector<Cut> find_all_cuts(const ProgramFacts& facts, const Dependencies& dependencies) {
  const graph::Graph& graph = facts.graph();
  std::vector<bool> read(graph.values.size());
  std::vector<Cut> cuts;
  for (graph::NodeId reader : dependencies.order) {
    const std::vector<graph::ValueId>& inputs = graph.node(reader).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const graph::ValueId value = inputs[i];
      const bool again =
          std::ranges::find(inputs, value) != inputs.begin() + static_cast<int64_t>(i);
      if (again || graph.value(value).kind != graph::ValueKind::kNode) continue;
      if (read[value.index()]) {
        cuts.push_back({value, reader, CutKind::kRecompute, ""});
        const std::string form = smallest_form(facts, reader, i);
        if (!form.empty()) cuts.push_back({value, reader, CutKind::kForm, form});
      }
      read[value.index()] = true;
    }
  }
  return cuts;
}

size_t count_root_segments(const ProgramFacts& facts) {
  const auto forward =
      std::ranges::count(facts.graph().nodes, graph::Stage::kForward, &graph::Node::stage);
  return std::max<size_t>(1, static_cast<size_t>(std::lround(std::sqrt(forward))));
}

std::string describe_shapes(const Shapes& shapes, int64_t batch) {
  int64_t least = batch;
  int64_t most = 0;
  std::set<int64_t> inner;
  for (const PhaseShape& shape : shapes) {
    least = std::min(least, shape.slice);
    most = std::max(most, shape.slice);
    if (shape.inner != 0) inner.insert(shape.inner);
  }
  const bool whole = least >= batch;
  if (whole && inner.empty()) return "whole batch";
  std::string text = whole ? "whole batch" : "slices of " + std::to_string(least);
  if (!whole && most > least) {
    text += most >= batch ? " to the whole batch" : " to " + std::to_string(most);
  }
  if (inner.empty()) return text;
  const bool one = inner.size() == 1 && *inner.begin() != kNestFully;
  return text + (one ? ", inside " + std::to_string(*inner.begin()) : ", nested");
}

std::string describe_cuts(const ProgramPlan& plan) {
  std::set<graph::ValueId> bits;
  std::set<graph::ValueId> again;
  for (const Instance& instance : plan.instances) {
    if (!instance.form.empty()) bits.insert(instance.value);
  }
  walk_items(plan, [&](const Item& item, int64_t, LoopId) {
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr || call->clone == 0) return;
    for (InstanceId id : call->outputs) {
      if (id.valid()) again.insert(plan.instances[id.index()].value);
    }
  });
  std::string text;
  if (!bits.empty()) text += ", " + std::to_string(bits.size()) + " as bits";
  if (!again.empty()) text += ", " + std::to_string(again.size()) + " computed again";
  return text;
}

}  // namespace plimsoll::plan
