#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "ops/fuse/fuse.h"
#include "ops/fuse/rewrite.h"

namespace plimsoll::ops {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool has_samples(const Graph& graph, const std::vector<ValueId>& values) {
  return std::ranges::any_of(
      values, [&](ValueId value) { return graph.value(value).type.shape.has_batch(); });
}

// How a node meets the samples of a batch.
struct Meeting {
  bool whole = false;                 // it looks at all of them at once
  std::optional<graph::Axis> summed;  // it makes sums along them
};

Meeting meeting_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  Meeting meeting;
  if (!has_samples(graph, node.inputs) && !has_samples(graph, node.outputs)) return meeting;
  bool cut = false;
  for (const graph::Axis& axis : axes_of(graph, id)) {
    if (!axis.extent.of_batch) continue;
    cut = true;
    // An operand of samples that does not follow the axis is read whole by each of its rows.
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool samples = graph.value(node.inputs[i]).type.shape.has_batch();
      meeting.whole |= samples && axis.inputs[i].dimension < 0;
    }
    if (axis.kind == graph::AxisKind::kMap) continue;
    meeting.whole |= axis.kind != graph::AxisKind::kReduce || axis.group > 0 ||
                     node.op->traits().lanes == graph::LaneJoining::kApart;
    meeting.summed = axis;
  }
  meeting.whole |= !cut;
  return meeting;
}

class RankSums {
 public:
  RankSums(const Graph& graph, int64_t samples)
      : samples_(samples), used_(graph.values.size(), false) {
    for (const Node& node : graph.nodes) {
      for (ValueId input : node.inputs) used_[input.index()] = true;
    }
    for (ValueId output : graph.outputs) used_[output.index()] = true;
  }

  void visit(Replay& replay, NodeId id) {
    const Node& node = replay.source().node(id);
    const Meeting meeting = meeting_of(replay.source(), id);
    if (meeting.whole) {
      replay.copy(id, gathered(replay, node));
      return;
    }
    replay.copy(id, replay.mapped(node.inputs));
    if (!meeting.summed) return;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const bool sum = meeting.summed->outputs[o].dimension < 0 && used_[node.outputs[o].index()];
      if (sum) add_sum(replay, node, node.outputs[o]);
    }
  }

 private:
  void add_sum(Replay& replay, const Node& node, ValueId sum) {
    const Graph& graph = replay.source();
    int64_t rows = 0;
    if (node.op->traits().lanes == graph::LaneJoining::kMoments) {
      const Shape& x = graph.value(node.inputs[0]).type.shape;
      rows = x.elements_per_sample() / x[x.rank() - 1].count;
    }
    replay.replace(sum, exchange(replay, node, "rank_sum", sum, {{"rows_per_sample", rows}}));
  }

  // The operands of a node that looks at all samples, with those of all ranks.
  std::vector<ValueId> gathered(Replay& replay, const Node& node) {
    const Graph& graph = replay.source();
    if (has_samples(graph, node.outputs)) {
      throw Error(ErrorKind::kModel,
                  fmt::format("{}: expected an operator that ranks can share, received \"{}\", "
                              "whose result for a sample depends on the others of its batch. Train "
                              "in one process.",
                              node.name, node.op->name()));
    }
    std::vector<ValueId> inputs = replay.mapped(node.inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!graph.value(node.inputs[i]).type.shape.has_batch()) continue;
      auto [known, added] = gathered_.try_emplace(node.inputs[i]);
      if (added) {
        known->second =
            exchange(replay, node, "rank_gather", node.inputs[i], {{"samples", samples_}});
      }
      inputs[i] = known->second;
    }
    return inputs;
  }

  // Adds a node that exchanges, after all that were added before.
  ValueId exchange(Replay& replay, const Node& node, std::string_view op, ValueId value,
                   graph::Attributes attributes) {
    graph::GraphBuilder& builder = replay.builder();
    builder.set_layer(node.layer);
    builder.set_stage(node.stage);
    std::vector<ValueId> inputs = {replay.mapped(value)};
    if (last_.valid()) inputs.push_back(last_);
    const NodeId added = builder.add(op, replay.source().value(value).name + "/ranks",
                                     std::move(inputs), std::move(attributes));
    const std::vector<ValueId>& outputs = builder.mutable_graph().node(added).outputs;
    last_ = outputs[1];
    return outputs[0];
  }

  int64_t samples_;  // of the step
  std::vector<bool> used_;
  std::map<ValueId, ValueId> gathered_;
  ValueId last_;  // what the exchange before this one gives
};

}  // namespace

Graph insert_rank_sums(const Graph& graph, const graph::OpRegistry& registry, int64_t samples) {
  RankSums sums(graph, samples);
  return Replay(graph, registry).run([&](Replay& replay, NodeId id) { sums.visit(replay, id); });
}

}  // namespace plimsoll::ops
