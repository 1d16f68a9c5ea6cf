#include "plan/core/extents.h"

#include <algorithm>

#include "graph/lanes.h"
#include "graph/value_axes.h"

namespace plimsoll::plan {
namespace {

// Who computes, copies and reads each instance.
struct InstanceLinks {
  const Call* writer = nullptr;
  int output = 0;
  InstanceId copied_from;                            // source of an encode or a transfer
  const std::vector<IterationRows>* rows = nullptr;  // that the transfer asks for
  std::vector<std::pair<const Call*, int>> readers;
};

std::vector<InstanceLinks> find_links(const ProgramPlan& plan) {
  std::vector<InstanceLinks> links(plan.instances.size());
  const auto visit = [&](const Item& item) {
    if (const auto* call = std::get_if<Call>(&item)) {
      for (size_t i = 0; i < call->inputs.size(); ++i) {
        links[call->inputs[i].index()].readers.emplace_back(call, static_cast<int>(i));
      }
      for (size_t o = 0; o < call->outputs.size(); ++o) {
        if (!call->outputs[o].valid()) continue;
        links[call->outputs[o].index()].writer = call;
        links[call->outputs[o].index()].output = static_cast<int>(o);
      }
    } else if (const auto* encode = std::get_if<Encode>(&item)) {
      links[encode->target.index()].copied_from = encode->source;
    } else if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
      links[begin->target.index()].copied_from = begin->source;
      links[begin->target.index()].rows = &begin->rows;
    }
  };
  for (const Item& item : plan.items) visit(item);
  for (const Loop& loop : plan.loops) {
    for (const Item& item : loop.items) visit(item);
  }
  return links;
}

class RuleFinder {
 public:
  RuleFinder(const ProgramPlan& plan, const graph::Graph& graph, const AxisTable& axes)
      : plan_(plan),
        graph_(graph),
        axes_(axes),
        parents_(find_parents(plan)),
        links_(find_links(plan)) {}

  InstanceRule find(InstanceId id) const {
    const Instance& instance = plan_.instances[id.index()];
    const graph::Value& value = graph_.value(instance.value);
    InstanceRule rule;
    for (const Dim& dim : value.type.shape.dims()) {
      rule.push_back({LoopId(), {}, dim.at(plan_.batch)});
    }
    if (instance.space == Space::kState) return rule;
    const InstanceLinks& origin = links_[trace(id).index()];
    for (LoopId loop = instance.scope; loop.valid(); loop = parents_[loop.index()]) {
      const graph::AxisUse* asked = find_asked(id, loop);
      cut(loop, asked != nullptr ? *asked : find_use(loop, instance.value, origin), rule);
    }
    return rule;
  }

 private:
  // What the transfer that writes the instance asks for; null: nothing along this loop's axis.
  const graph::AxisUse* find_asked(InstanceId id, LoopId loop) const {
    const std::vector<IterationRows>* rows = links_[id.index()].rows;
    if (rows == nullptr) return nullptr;
    const auto found =
        std::ranges::find(*rows, plan_.loops[loop.index()].axis, &IterationRows::axis);
    return found == rows->end() ? nullptr : &found->use;
  }

  // How rows of the loop meet the value.
  graph::AxisUse find_use(LoopId loop, graph::ValueId id, const InstanceLinks& origin) const {
    const graph::Value& value = graph_.value(id);
    if (value.kind == graph::ValueKind::kNode) {
      const std::vector<graph::Axis>& axes = axes_[value.producer.index()];
      const int axis = graph::find_axis(axes, find_bound_axis(plan_, loop, origin.writer));
      if (axis < 0) return {};
      return axes[static_cast<size_t>(axis)].outputs[static_cast<size_t>(value.output)];
    }
    for (const graph::ValueAxis& own : graph::value_axes(graph_, id, {})) {
      if (plan_.loops[loop.index()].axis.name() == own.name) return own.use;
    }
    return value.kind == graph::ValueKind::kInput ? widest_window(loop, origin) : graph::AxisUse{};
  }

  // A transfer may ask for a dimension that the value does not have: the validator refuses it.
  static void cut(LoopId loop, const graph::AxisUse& use, InstanceRule& rule) {
    if (use.dimension < 0 || use.dimension >= std::ssize(rule)) return;
    DimensionRule& dimension = rule[static_cast<size_t>(use.dimension)];
    if (!dimension.loop.valid()) dimension = {loop, use, dimension.extent};
  }

  // The rows that all readers need together; dimension −1: all of them.
  graph::AxisUse widest_window(LoopId loop, const InstanceLinks& origin) const {
    graph::AxisUse widest;
    for (const auto& [call, input] : origin.readers) {
      const std::vector<graph::Axis>& axes = axes_[call->node.index()];
      const int axis = graph::find_axis(axes, find_bound_axis(plan_, loop, call));
      if (axis < 0) return {};
      const graph::AxisUse& use =
          axes[static_cast<size_t>(axis)].inputs[static_cast<size_t>(input)];
      const bool other = widest.dimension >= 0 && widest.dimension != use.dimension;
      if (use.dimension < 0 || other) return {};
      widest = {use.dimension, use.stride, std::max(widest.before, use.before),
                std::max(widest.after, use.after)};
    }
    return widest;
  }

  // From a saved form or a moved copy back to the instance that was computed or fed.
  InstanceId trace(InstanceId id) const {
    for (size_t steps = 0; steps < links_.size(); ++steps) {
      const InstanceId source = links_[id.index()].copied_from;
      if (!source.valid()) break;
      id = source;
    }
    return id;
  }

  const ProgramPlan& plan_;
  const graph::Graph& graph_;
  const AxisTable& axes_;
  std::vector<LoopId> parents_;
  std::vector<InstanceLinks> links_;
};

}  // namespace

AxisTable find_all_axes(const graph::Graph& graph) {
  AxisTable table(graph.nodes.size());
  for (size_t n = 0; n < table.size(); ++n) table[n] = graph::axes_of(graph, graph::NodeId(n));
  return table;
}

std::vector<LoopId> find_parents(const ProgramPlan& plan) {
  std::vector<LoopId> parents(plan.loops.size());
  for (size_t l = 0; l < plan.loops.size(); ++l) {
    for (const Item& item : plan.loops[l].items) {
      if (const auto* enter = std::get_if<Enter>(&item)) parents[enter->loop.index()] = LoopId(l);
    }
  }
  return parents;
}

LoopId find_outer_loop(const ProgramPlan& plan, std::span<const LoopId> parents, LoopId loop) {
  const LoopAxis& axis = plan.loops[loop.index()].axis;
  LoopId outer = parents[loop.index()];
  while (outer.valid() && plan.loops[outer.index()].axis != axis) outer = parents[outer.index()];
  return outer;
}

std::string_view find_bound_axis(const ProgramPlan& plan, LoopId loop, const Call* call) {
  if (call != nullptr) {
    for (const auto& [bound, axis] : call->bindings) {
      if (bound == loop) return axis;
    }
  }
  return plan.loops[loop.index()].axis.name();
}

RowRange rows_of(const graph::AxisUse& use, RowRange rows, int64_t extent) {
  if (rows.size() <= 0) return {};
  return {std::clamp<int64_t>(rows.begin * use.stride - use.before, 0, extent),
          std::clamp<int64_t>((rows.end - 1) * use.stride + use.after + 1, 0, extent)};
}

std::vector<int64_t> find_partials(const graph::Program& program, const AxisTable& axes) {
  const int64_t length = graph::lane_length(program);
  const int64_t partials = graph::partial_count(graph::filled_lanes(program.batch, length));
  std::vector<int64_t> found(program.graph.values.size(), 1);
  for (size_t n = 0; n < axes.size() && partials > 1; ++n) {
    const graph::Node& node = program.graph.nodes[n];
    for (const graph::Axis& axis : axes[n]) {
      if (!graph::is_summed_by_lanes(*node.op, axis, length)) continue;
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        if (axis.outputs[o].dimension < 0) found[node.outputs[o].index()] = partials;
      }
    }
  }
  return found;
}

int64_t lane_of(const ProgramPlan& plan, const Loop& loop) {
  return loop.axis.of_samples() ? plan.lane : 0;
}

// Rows of several lanes begin at one.
int64_t iteration_count(const Loop& loop, RowRange around, int64_t lane) {
  const auto of_rows = [&](int64_t rows) { return (rows + loop.slice - 1) / loop.slice; };
  if (lane == 0 || around.size() <= lane) return of_rows(around.size());
  return around.size() / lane * of_rows(lane) + of_rows(around.size() % lane);
}

RowRange iteration_from(const Loop& loop, RowRange around, int64_t begin, int64_t lane) {
  int64_t end = std::min(begin + loop.slice, around.end);
  if (lane > 0) end = std::min(end, (begin / lane + 1) * lane);
  return {begin, end};
}

std::vector<InstanceRule> find_instance_rules(const ProgramPlan& plan, const graph::Graph& graph,
                                              const AxisTable& axes) {
  const RuleFinder finder(plan, graph, axes);
  std::vector<InstanceRule> rules;
  rules.reserve(plan.instances.size());
  for (size_t i = 0; i < plan.instances.size(); ++i) rules.push_back(finder.find(InstanceId(i)));
  return rules;
}

std::vector<RowRange> instance_rows(const InstanceRule& rule,
                                    std::span<const RowRange> iterations) {
  std::vector<RowRange> rows;
  rows.reserve(rule.size());
  for (const DimensionRule& dimension : rule) {
    rows.push_back(
        dimension.loop.valid()
            ? rows_of(dimension.use, iterations[dimension.loop.index()], dimension.extent)
            : RowRange{0, dimension.extent});
  }
  return rows;
}

std::vector<int64_t> largest_rows(const InstanceRule& rule, const ProgramPlan& plan) {
  std::vector<int64_t> rows;
  rows.reserve(rule.size());
  for (const DimensionRule& dimension : rule) {
    int64_t most = dimension.extent;
    if (dimension.loop.valid()) {
      const Loop& loop = plan.loops[dimension.loop.index()];
      int64_t iteration = std::min(loop.slice, loop.extent);
      if (lane_of(plan, loop) > 0) iteration = std::min(iteration, plan.lane);
      const graph::AxisUse& use = dimension.use;
      most = std::min(most, (iteration - 1) * use.stride + use.before + use.after + 1);
    }
    rows.push_back(most);
  }
  return rows;
}

Bytes instance_bytes(const graph::ValueType& type, std::string_view form,
                     std::span<const int64_t> rows) {
  const bool bits = !form.empty() || type.dtype == DType::kBits;
  const bool batched = type.shape.has_batch();
  const int64_t samples = batched ? rows[0] / type.shape[0].count : 1;
  int64_t elements = batched ? type.shape[0].count : 1;
  for (size_t d = batched ? 1 : 0; d < rows.size(); ++d) elements *= rows[d];
  return samples * (bits ? Bytes((elements + 7) / 8) : elements * element_bytes(type.dtype));
}

std::vector<LoopId> bind_loops(const ProgramPlan& plan, std::span<const LoopId> parents,
                               LoopId around, const Call& call, std::span<const graph::Axis> axes) {
  std::vector<LoopId> bound(axes.size());
  for (LoopId loop = around; loop.valid(); loop = parents[loop.index()]) {
    const int axis = graph::find_axis(axes, find_bound_axis(plan, loop, &call));
    if (axis >= 0 && !bound[static_cast<size_t>(axis)].valid()) {
      bound[static_cast<size_t>(axis)] = loop;
    }
  }
  return bound;
}

namespace {

int64_t blocks_of_a_lane(int64_t block, int64_t lane) { return (lane + block - 1) / block; }

// The place of the block that a row lies in among all of the axis.
int64_t find_block(int64_t row, int64_t block, int64_t lane) {
  if (lane == 0) return row / block;
  return row / lane * blocks_of_a_lane(block, lane) + row % lane / block;
}

}  // namespace

int64_t block_count(RowRange rows, int64_t block, int64_t lane) {
  if (rows.size() <= 0) return 0;
  return find_block(rows.end - 1, block, lane) - find_block(rows.begin, block, lane) + 1;
}

RowRange block_rows(RowRange rows, int64_t block, int64_t lane, int64_t index) {
  const int64_t place = find_block(rows.begin, block, lane) + index;
  if (lane == 0) {
    return {std::max(place * block, rows.begin), std::min((place + 1) * block, rows.end)};
  }
  const int64_t each = blocks_of_a_lane(block, lane);
  const int64_t start = place / each * lane;
  const int64_t first = start + place % each * block;
  return {std::max(first, rows.begin), std::min({first + block, start + lane, rows.end})};
}

}  // namespace plimsoll::plan
