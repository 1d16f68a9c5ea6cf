#include <algorithm>
#include <optional>
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

[[noreturn]] void refuse_whole(const Node& node) {
  throw Error(ErrorKind::kModel,
              fmt::format("{}: expected an operator that ranks can share, received \"{}\", which "
                          "looks at all samples of a batch at once. Train in one process.",
                          node.name, node.op->name()));
}

bool has_samples(const Graph& graph, const Node& node) {
  const auto of_batch = [&](ValueId value) { return graph.value(value).type.shape.has_batch(); };
  return std::ranges::any_of(node.inputs, of_batch) || std::ranges::any_of(node.outputs, of_batch);
}

// The axis of samples that the node is summed along; none: it makes no sums.
std::optional<graph::Axis> summed_axis(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!has_samples(graph, node)) return std::nullopt;
  bool cut = false;
  std::optional<graph::Axis> summed;
  for (const graph::Axis& axis : axes_of(graph, id)) {
    if (!axis.extent.of_batch) continue;
    cut = true;
    if (axis.kind == graph::AxisKind::kMap) continue;
    if (axis.kind != graph::AxisKind::kReduce || axis.group > 0 ||
        node.op->traits().lanes == graph::LaneJoining::kApart) {
      refuse_whole(node);
    }
    summed = axis;
  }
  if (!cut) refuse_whole(node);
  return summed;
}

class RankSums {
 public:
  explicit RankSums(const Graph& graph) : used_(graph.values.size(), false) {
    for (const Node& node : graph.nodes) {
      for (ValueId input : node.inputs) used_[input.index()] = true;
    }
    for (ValueId output : graph.outputs) used_[output.index()] = true;
  }

  void visit(Replay& replay, NodeId id) {
    const Node& node = replay.source().node(id);
    const std::optional<graph::Axis> axis = summed_axis(replay.source(), id);
    replay.copy(id, replay.mapped(node.inputs));
    if (!axis) return;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const bool sum = axis->outputs[o].dimension < 0 && used_[node.outputs[o].index()];
      if (sum) add(replay, node, node.outputs[o]);
    }
  }

 private:
  void add(Replay& replay, const Node& node, ValueId sum) {
    const Graph& graph = replay.source();
    int64_t rows = 0;
    if (node.op->traits().lanes == graph::LaneJoining::kMoments) {
      const Shape& x = graph.value(node.inputs[0]).type.shape;
      rows = x.elements_per_sample() / x[x.rank() - 1].count;
    }
    graph::GraphBuilder& builder = replay.builder();
    builder.set_layer(node.layer);
    builder.set_stage(node.stage);
    std::vector<ValueId> inputs = {replay.mapped(sum)};
    if (last_.valid()) inputs.push_back(last_);
    const NodeId added = builder.add("rank_sum", graph.value(sum).name + "/ranks",
                                     std::move(inputs), {{"rows_per_sample", rows}});
    const std::vector<ValueId>& outputs = builder.mutable_graph().node(added).outputs;
    replay.replace(sum, outputs[0]);
    last_ = outputs[1];
  }

  std::vector<bool> used_;
  ValueId last_;  // what the exchange before this one gives
};

}  // namespace

Graph insert_rank_sums(const Graph& graph, const graph::OpRegistry& registry) {
  RankSums sums(graph);
  return Replay(graph, registry).run([&](Replay& replay, NodeId id) { sums.visit(replay, id); });
}

}  // namespace plimsoll::ops
