#include "plan/search/schedules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/format.h"
#include "plan/core/walk.h"
#include "plan/facts/estimate.h"

namespace plimsoll::plan {
namespace {

using Slots = std::span<const std::vector<graph::NodeId>>;

Shapes smallest_shapes(const ProgramFacts& facts, const Dependencies& dependencies, Slots slots) {
  Shapes shapes;
  for (size_t s = 1; s < slots.size(); s += 2) {
    const int64_t extent = find_extent(facts, dependencies, slots[s]);
    shapes.push_back({std::min(find_unit(dependencies, slots[s]), extent), 0});
  }
  return shapes;
}

// Twice as many rows, a lane, and after that all of them.
int64_t next_slice(const Dependencies& dependencies, int64_t slice, int64_t extent) {
  const int64_t lane = dependencies.lane;
  if (lane == 0) return std::min(2 * slice, extent);
  return slice < lane ? std::min(2 * slice, lane) : extent;
}

}  // namespace

std::vector<Shapes> make_flat_shapes(const ProgramFacts& facts, const Dependencies& dependencies,
                                     Slots slots) {
  std::vector<Shapes> result = {smallest_shapes(facts, dependencies, slots)};
  for (bool whole = false; !whole;) {
    Shapes next = result.back();
    whole = true;
    for (size_t p = 0; p < next.size(); ++p) {
      const int64_t extent = find_extent(facts, dependencies, slots[2 * p + 1]);
      whole = whole && next[p].slice >= extent;
      next[p].slice = next_slice(dependencies, next[p].slice, extent);
    }
    if (!whole) result.push_back(std::move(next));
  }
  return result;
}

std::vector<Shapes> make_nested_shapes(const ProgramFacts& facts, const Dependencies& dependencies,
                                       Slots slots) {
  if (!dependencies.axis.of_samples()) return {};
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

namespace {

std::vector<graph::NodeId> find_forward(const ProgramFacts& facts,
                                        const Dependencies& dependencies) {
  std::vector<graph::NodeId> forward;
  for (graph::NodeId node : dependencies.order) {
    if (facts.graph().node(node).stage == graph::Stage::kForward) forward.push_back(node);
  }
  return forward;
}

// The first call of each loop of the root in which something of the way back is computed.
std::vector<graph::NodeId> find_loop_anchors(const ProgramPlan& tree, const ProgramFacts& facts) {
  const std::vector<LoopId> parents = find_parents(tree);
  std::vector<graph::NodeId> anchors;
  LoopId last;  // the loop of the root that was met last
  graph::NodeId first;
  walk_items(tree, [&](const Item& item, int64_t, LoopId around) {
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr || !around.valid()) return;
    while (parents[around.index()].valid()) around = parents[around.index()];
    if (around != last) first = call->node;
    last = around;
    const bool back = facts.graph().node(call->node).stage == graph::Stage::kBackward;
    if (!back || (!anchors.empty() && anchors.back() == first)) return;
    anchors.push_back(first);
  });
  return anchors;
}

// The bytes of a sample that are made at or before each forward node and read on the way forth
// after it.
std::vector<int64_t> find_crossing(const ProgramFacts& facts, const Dependencies& dependencies,
                                   std::span<const graph::NodeId> forward) {
  std::vector<size_t> place(facts.graph().nodes.size(), forward.size());
  for (size_t i = 0; i < forward.size(); ++i) place[forward[i].index()] = i;
  std::vector<int64_t> change(forward.size() + 1);
  for (size_t i = 0; i < forward.size(); ++i) {
    for (graph::ValueId output : facts.graph().node(forward[i]).outputs) {
      if (!is_carried(facts, dependencies, output)) continue;
      size_t last = i;
      for (graph::NodeId user : facts.users()[output.index()]) {
        if (place[user.index()] < forward.size()) last = std::max(last, place[user.index()]);
      }
      const graph::ValueType& type = facts.graph().value(output).type;
      change[i] += row_bytes(type.dtype, type.shape).count();
      change[last] -= row_bytes(type.dtype, type.shape).count();
    }
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  return change;
}

// The segment of each forward node: they end where least crosses, within half a length of equal
// ones.
std::vector<size_t> find_segments(std::span<const int64_t> crossing, size_t segments) {
  std::vector<size_t> result(crossing.size());
  const size_t length = std::max<size_t>(1, crossing.size() / segments);
  size_t begin = 0;
  for (size_t s = 1; s < segments; ++s) {
    const size_t aim = s * crossing.size() / segments;
    const size_t from = std::max(begin, aim - std::min(aim, length / 2));
    const size_t to = std::min(crossing.size(), aim + length / 2 + 1);
    if (from >= to) continue;
    const auto least = std::min_element(crossing.begin() + static_cast<ptrdiff_t>(from),
                                        crossing.begin() + static_cast<ptrdiff_t>(to));
    const auto end = static_cast<size_t>(least - crossing.begin()) + 1;
    for (size_t i = end; i < result.size(); ++i) result[i] = s;
    begin = end;
  }
  return result;
}

// What is made and read, on the way forth, in one segment alone, and can be made again.
struct Sized {
  graph::ValueId value;
  int64_t bytes = 0;  // of a sample
};
std::vector<Sized> find_inner(const ProgramFacts& facts, const Dependencies& dependencies,
                              std::span<const graph::NodeId> forward,
                              std::span<const size_t> segments) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  std::vector<size_t> segment_of(facts.graph().nodes.size(), kNone);
  for (size_t i = 0; i < forward.size(); ++i) segment_of[forward[i].index()] = segments[i];
  std::vector<Sized> inner;
  for (graph::NodeId node : forward) {
    for (graph::ValueId output : facts.graph().node(node).outputs) {
      if (!is_carried(facts, dependencies, output)) continue;
      if (!dependencies.repeatable[output.index()]) continue;
      const auto crosses = [&](graph::NodeId user) {
        const size_t segment = segment_of[user.index()];
        return segment != kNone && segment != segment_of[node.index()];
      };
      if (std::ranges::any_of(facts.users()[output.index()], crosses)) continue;
      const graph::ValueType& type = facts.graph().value(output).type;
      inner.push_back({output, row_bytes(type.dtype, type.shape).count()});
    }
  }
  return inner;
}

// To make the value once more, over the whole batch.
double find_seconds(const ProgramPlan& tree, graph::ValueId value, ProgramFacts& facts) {
  constexpr double kLeastSeconds = 1e-9;
  const Call call{facts.graph().value(value).producer, 0, {}, {}, {}, {}, {}};
  return kLeastSeconds + find_call_cost(tree, {}, LoopId(), call, 0, facts).seconds;
}

}  // namespace

std::vector<Cut> make_checkpoints(const ProgramFacts& facts, const Dependencies& dependencies,
                                  size_t segments) {
  const auto back = std::ranges::find_if(dependencies.order, [&](graph::NodeId node) {
    return facts.graph().node(node).stage == graph::Stage::kBackward;
  });
  if (back == dependencies.order.end()) return {};
  const std::vector<graph::NodeId> forward = find_forward(facts, dependencies);
  std::vector<size_t> equal(forward.size());
  for (size_t i = 0; i < forward.size(); ++i) equal[i] = i * segments / forward.size();
  std::vector<Cut> cuts;
  for (const Sized& inner : find_inner(facts, dependencies, forward, equal)) {
    cuts.push_back({inner.value, *back, CutKind::kRecompute, ""});
  }
  return cuts;
}

std::vector<Cut> make_loop_checkpoints(const ProgramPlan& tree, ProgramFacts& facts,
                                       const Dependencies& dependencies,
                                       const LoopCheckpoints& how) {
  const std::vector<graph::NodeId> anchors = find_loop_anchors(tree, facts);
  const std::vector<graph::NodeId> forward = find_forward(facts, dependencies);
  if (anchors.empty() || forward.empty()) return {};
  const std::vector<size_t> segments =
      find_segments(find_crossing(facts, dependencies, forward), how.segments);
  std::vector<Sized> inner = find_inner(facts, dependencies, forward, segments);
  std::ranges::stable_sort(inner, std::ranges::greater(), [&](const Sized& value) {
    return static_cast<double>(value.bytes) / find_seconds(tree, value.value, facts);
  });
  double left = 0;
  for (const Sized& value : inner) left += how.share * static_cast<double>(value.bytes);
  std::vector<Cut> cuts;
  for (const Sized& value : inner) {
    if (left <= 0) break;
    left -= static_cast<double>(value.bytes);
    for (graph::NodeId anchor : anchors) {
      cuts.push_back({value.value, anchor, CutKind::kRecompute, ""});
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

size_t count_forward(const ProgramFacts& facts) {
  return static_cast<size_t>(
      std::ranges::count(facts.graph().nodes, graph::Stage::kForward, &graph::Node::stage));
}

Bytes find_gradient_bytes(const ProgramFacts& facts) {
  const graph::Graph& graph = facts.graph();
  const auto updates = [&](graph::NodeId id) {
    return graph.node(id).stage == graph::Stage::kUpdate;
  };
  Bytes bytes;
  for (const graph::Node& node : graph.nodes) {
    if (node.stage == graph::Stage::kUpdate) continue;
    for (graph::ValueId output : node.outputs) {
      const graph::ValueType& type = graph.value(output).type;
      if (type.shape.has_batch()) continue;
      if (!std::ranges::any_of(facts.users()[output.index()], updates)) continue;
      bytes += instance_bytes(type, "", type.shape.at(facts.batch()));
    }
  }
  return bytes;
}

size_t count_root_segments(const ProgramFacts& facts) {
  return std::max<size_t>(1, static_cast<size_t>(std::lround(std::sqrt(count_forward(facts)))));
}

namespace {

std::string describe_other_shapes(const Shapes& shapes, const LoopAxis& axis) {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 0;
  for (const PhaseShape& shape : shapes) {
    least = std::min(least, shape.slice);
    most = std::max(most, shape.slice);
  }
  const std::string range = least >= most ? "" : fmt::format("{} to ", least);
  return fmt::format("images in slices of {}{} {}", range, most, axis.name());
}

}  // namespace

std::string describe_shapes(const Shapes& shapes, const LoopAxis& axis, int64_t batch) {
  if (!axis.of_samples()) return describe_other_shapes(shapes, axis);
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
  std::string text = whole ? "whole batch" : fmt::format("slices of {}", least);
  if (!whole && most > least) {
    text += most >= batch ? " to the whole batch" : fmt::format(" to {}", most);
  }
  if (inner.empty()) return text;
  const bool one = inner.size() == 1 && *inner.begin() != kNestFully;
  return text + (one ? fmt::format(", loops of {} inside", *inner.begin()) : ", nested");
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
  const auto values = [](size_t count) {
    return fmt::format(", {} {}", count, count == 1 ? "value" : "values");
  };
  std::string text;
  if (!bits.empty()) text += values(bits.size()) + " as bits";
  if (!again.empty()) text += values(again.size()) + " computed again";
  return text;
}

}  // namespace plimsoll::plan
