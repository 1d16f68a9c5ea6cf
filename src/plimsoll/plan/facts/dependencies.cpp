#include "plan/facts/dependencies.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "base/error.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;

// Whether each operand with samples has just those of a slice in it, and nothing else is cut.
bool keeps_samples(const ProgramFacts& facts, NodeId id, const graph::Axis& axis,
                   const LoopAxis& loop) {
  const graph::Node& node = facts.graph().node(id);
  const auto alike = [&](const std::vector<ValueId>& values,
                         const std::vector<graph::AxisUse>& uses) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (uses[i] != loop.use_in(facts.graph().value(values[i]).type)) return false;
    }
    return true;
  };
  return alike(node.inputs, axis.inputs) && alike(node.outputs, axis.outputs);
}

// A node may be sliced when each result has the rows of the slice or is a sum over them. Sums go
// over the axes in front first: each of those is then in one block.
bool can_slice(const ProgramFacts& facts, NodeId id, size_t position, const LoopAxis& loop) {
  const graph::Axis& axis = facts.axes(id)[position];
  const bool reduce = axis.kind == graph::AxisKind::kReduce;
  if (!reduce && axis.kind != graph::AxisKind::kMap && axis.kind != graph::AxisKind::kWindow) {
    return false;
  }
  if (loop.of_samples() && !keeps_samples(facts, id, axis, loop)) return false;
  for (size_t a = 0; reduce && a < position; ++a) {
    if (facts.block(id)[a] < facts.extent(id, a) || facts.lane(id, a) > 0) return false;
  }
  return reduce || std::ranges::all_of(
                       axis.outputs, [&](const graph::AxisUse& use) { return use.dimension >= 0; });
}

AxisRole find_role(const ProgramFacts& facts, NodeId id, const LoopAxis& loop) {
  AxisRole role;
  const std::vector<graph::Axis>& axes = facts.axes(id);
  role.axis = graph::find_axis(axes, loop.name());
  if (role.axis < 0) return role;
  const graph::Axis& axis = axes[static_cast<size_t>(role.axis)];
  role.extent = facts.extent(id, static_cast<size_t>(role.axis));
  role.sliced = can_slice(facts, id, static_cast<size_t>(role.axis), loop);
  if (!role.sliced) return role;
  const bool any_rows =
      axis.kind == graph::AxisKind::kMap && facts.catalog().row_exact(facts.graph(), id, role.axis);
  role.unit = any_rows ? 1 : facts.block(id)[static_cast<size_t>(role.axis)];
  // Nearly all nodes have samples. Of another axis what one call takes whole would keep all that
  // stands beside it in one iteration.
  if (!loop.of_samples() && role.unit >= role.extent) role.sliced = false;
  return role;
}

// The value that may take the memory of a state variable: what is written to it, where the
// operator allows it to overwrite the incoming value.
ValueId find_update(const ProgramFacts& facts, const graph::StateVariable& state) {
  const graph::Graph& graph = facts.graph();
  if (!state.write.valid() || !state.incoming.valid()) return {};
  const ValueId written = graph.node(state.write).inputs[0];
  const graph::Value& value = graph.value(written);
  if (value.kind != graph::ValueKind::kNode) return {};
  const graph::Node& node = graph.node(value.producer);
  const std::vector<graph::ValueType> inputs = graph::input_types(graph, value.producer);
  const std::vector<graph::ValueType> outputs = graph::output_types(graph, value.producer);
  for (const graph::Alias& alias : node.op->aliases({node.attributes, inputs, outputs})) {
    if (alias.output == value.output &&
        node.inputs[static_cast<size_t>(alias.input)] == state.incoming) {
      return written;
    }
  }
  return {};
}

class DependencyFinder {
 public:
  DependencyFinder(const ProgramFacts& facts, const LoopAxis& axis) : facts_(facts) {
    result_.axis = axis;
    result_.lane = axis.of_samples() ? facts.lane() : 0;
    result_.before.resize(facts.graph().nodes.size());
    result_.after.resize(facts.graph().nodes.size());
  }

  Dependencies find() {
    const graph::Graph& graph = facts_.graph();
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      result_.roles.push_back(find_role(facts_, NodeId(n), result_.axis));
      for (ValueId input : graph.nodes[n].inputs) {
        if (graph.value(input).kind == graph::ValueKind::kNode) {
          add(graph.value(input).producer, NodeId(n));
        }
      }
    }
    for (const graph::StateVariable& state : graph.states) add_state(state);
    for (std::vector<NodeId>& nodes : result_.before) sort_unique(nodes);
    for (std::vector<NodeId>& nodes : result_.after) sort_unique(nodes);
    find_order();
    for (size_t v = 0; v < graph.values.size(); ++v) {
      result_.repeatable.push_back(is_repeatable(ValueId(v)));
    }
    for (ValueId update : result_.updates) {
      if (!update.valid()) continue;
      for (ValueId output : graph.node(graph.value(update).producer).outputs) {
        result_.repeatable[output.index()] = false;
      }
    }
    return std::move(result_);
  }

 private:
  static void sort_unique(std::vector<NodeId>& nodes) {
    std::ranges::sort(nodes);
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }

  void add(NodeId first, NodeId second) {
    result_.after[first.index()].push_back(second);
    result_.before[second.index()].push_back(first);
  }

  void add_state(const graph::StateVariable& state) {
    result_.updates.push_back(find_update(facts_, state));
    if (!state.write.valid() || !state.incoming.valid()) return;
    const std::vector<NodeId>& readers = facts_.users()[state.incoming.index()];
    for (NodeId reader : readers) {
      if (reader != state.write) add(reader, state.write);
    }
    if (!result_.updates.back().valid()) return;
    const NodeId update = facts_.graph().value(result_.updates.back()).producer;
    const std::vector<bool> later = find_later(update);
    for (NodeId reader : readers) {
      if (reader != update && !later[reader.index()]) add(reader, update);
    }
  }

  bool is_repeatable(ValueId value) const {
    const graph::Value& v = facts_.graph().value(value);
    if (v.kind != graph::ValueKind::kNode) return v.kind == graph::ValueKind::kInput;
    const graph::Node& node = facts_.graph().node(v.producer);
    const graph::OpTraits traits = node.op->traits();
    if (traits.state_write || traits.exchanges) return false;
    if (!result_.roles[v.producer.index()].sliced) return true;
    const AxisRole& role = result_.roles[v.producer.index()];
    const graph::Axis& axis = facts_.axes(v.producer)[static_cast<size_t>(role.axis)];
    return std::ranges::all_of(axis.outputs,
                               [](const graph::AxisUse& use) { return use.dimension >= 0; });
  }

  // What cannot come before `node`.
  std::vector<bool> find_later(NodeId node) const {
    std::vector<bool> later(result_.after.size());
    std::vector<NodeId> open = {node};
    while (!open.empty()) {
      const NodeId here = open.back();
      open.pop_back();
      if (later[here.index()]) continue;
      later[here.index()] = true;
      for (NodeId next : result_.after[here.index()]) open.push_back(next);
    }
    return later;
  }

  // The lowest numbers first.
  void find_order() {
    std::vector<size_t> waiting;
    std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
    for (size_t n = 0; n < result_.before.size(); ++n) {
      waiting.push_back(result_.before[n].size());
      if (waiting.back() == 0) ready.push(NodeId(n));
    }
    while (!ready.empty()) {
      const NodeId node = ready.top();
      ready.pop();
      result_.order.push_back(node);
      for (NodeId next : result_.after[node.index()]) {
        if (--waiting[next.index()] == 0) ready.push(next);
      }
    }
    PLIMSOLL_CHECK(result_.order.size() == result_.before.size(), "a graph has no circles");
  }

  const ProgramFacts& facts_;
  Dependencies result_;
};

}  // namespace

Dependencies find_dependencies(const ProgramFacts& facts, const LoopAxis& axis) {
  return DependencyFinder(facts, axis).find();
}

bool is_carried(const ProgramFacts& facts, const Dependencies& dependencies, ValueId value) {
  const graph::Value& v = facts.graph().value(value);
  if (v.kind == graph::ValueKind::kInput) return dependencies.axis.use_in(v.type).dimension >= 0;
  if (v.kind != graph::ValueKind::kNode) return false;
  const AxisRole& role = dependencies.roles[v.producer.index()];
  if (!role.sliced) return false;
  const graph::Axis& axis = facts.axes(v.producer)[static_cast<size_t>(role.axis)];
  return axis.outputs[static_cast<size_t>(v.output)].dimension >= 0;
}

bool shares_iterations(const ProgramFacts& facts, const Dependencies& dependencies, NodeId reader,
                       size_t input) {
  const ValueId value = facts.graph().node(reader).inputs[input];
  if (!is_carried(facts, dependencies, value)) return false;
  const graph::Value& v = facts.graph().value(value);
  if (v.kind != graph::ValueKind::kNode) return true;
  const AxisRole& made = dependencies.roles[v.producer.index()];
  const AxisRole& read = dependencies.roles[reader.index()];
  if (!read.sliced || made.extent != read.extent) return false;
  const graph::Axis& maker = facts.axes(v.producer)[static_cast<size_t>(made.axis)];
  const graph::Axis& axis = facts.axes(reader)[static_cast<size_t>(read.axis)];
  return maker.outputs[static_cast<size_t>(v.output)] == axis.inputs[input];
}

int64_t iteration_bytes(const ProgramFacts& facts, const Dependencies& dependencies, ValueId value,
                        int64_t rows) {
  const graph::Value& v = facts.graph().value(value);
  const int64_t whole = tensor_bytes(v.type.dtype, v.type.shape, facts.batch()).count();
  if (!is_carried(facts, dependencies, value)) return whole;
  const int64_t extent = v.kind == graph::ValueKind::kInput
                             ? facts.batch()
                             : dependencies.roles[v.producer.index()].extent;
  return whole / extent * std::min(rows, extent);
}

int64_t common_unit(const Dependencies& dependencies, int64_t a, int64_t b) {
  const int64_t unit = std::lcm(a, b);
  return dependencies.lane > 0 ? std::min(unit, dependencies.lane) : unit;
}

int64_t find_extent(const ProgramFacts& facts, const Dependencies& dependencies,
                    std::span<const NodeId> nodes) {
  if (nodes.empty()) return facts.batch();
  return dependencies.roles[nodes.front().index()].extent;
}

bool cuts_samples(const ProgramFacts& facts, const LoopAxis& axis) {
  if (facts.batch() != 1) return false;
  for (size_t n = 0; n < facts.graph().nodes.size(); ++n) {
    const AxisRole role = find_role(facts, NodeId(n), axis);
    if (role.sliced && role.unit > 1 && role.unit < role.extent) return true;
  }
  return false;
}

}  // namespace plimsoll::plan
