#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/fuse/late_nodes.h"
#include "ops/fuse/rank_messages.h"
#include "ops/fuse/rewrite.h"

namespace plimsoll::ops {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr std::array<std::string_view, 2> kSums = {"rank_sum", "rank_sums"};

// A sum that nothing with samples needs is begun where it stood, and waited for when the next
// exchange has begun. The order of exchanges is what it was.
class Beside {
 public:
  explicit Beside(const Graph& graph) : graph_(graph), later_(graph) {}

  void visit(Replay& replay, NodeId id) {
    add(replay, id);
    const bool last = id.index() + 1 == graph_.nodes.size();
    while (last && open_.node.valid()) end(replay, std::exchange(open_, {}));
  }

 private:
  // A sum that has begun.
  struct Open {
    NodeId node;
    std::vector<ValueId> made;  // by what begins it
    std::vector<int64_t> rows;
  };

  void add(Replay& replay, NodeId id) {
    const Node& node = graph_.node(id);
    const bool exchanges = node.op->traits().exchanges;
    while (later_.is_late(id) && (exchanges || later_.is_urgent(id))) {
      end(replay, std::exchange(open_, {}));
    }
    if (later_.is_late(id)) {
      later_.hold(id);
    } else if (!exchanges) {
      replay.copy(id, replay.mapped(node.inputs));
    } else {
      Open before = std::exchange(open_, {});
      emit(replay, id);
      if (before.node.valid()) end(replay, std::move(before));
    }
  }

  void emit(Replay& replay, NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs = replay.mapped(later_.operands_of(node));
    if (last_.valid()) inputs.push_back(last_);
    const bool sum = std::ranges::find(kSums, node.op->name()) != kSums.end();
    if (!sum || later_.is_urgent(id)) {
      replay.copy(id, std::move(inputs));
      last_ = replay.mapped(node.outputs.back());
      return;
    }
    open_.node = id;
    open_.rows = node.op->name() == kSums[0]
                     ? std::vector<int64_t>{node.attributes.get_int("rows_per_sample")}
                     : node.attributes.get_ints("rows_per_sample");
    graph::GraphBuilder& builder = replay.builder();
    builder.set_layer(node.layer);
    builder.set_stage(node.stage);
    const NodeId begun = builder.add("rank_sum_begin", node.name + "/begin", std::move(inputs),
                                     {{"rows_per_sample", open_.rows}, {graph::kUnderWay, true}});
    open_.made = builder.graph().node(begun).outputs;
    last_ = open_.made.back();
    for (size_t i = 0; i < open_.rows.size(); ++i) later_.set_late(node.outputs[i], true);
  }

  // What is waited for stands after the exchange that began last.
  void end(Replay& replay, Open open) {
    const Node& node = graph_.node(open.node);
    std::vector<ValueId> inputs = open.made;
    if (last_ != open.made.back()) inputs.push_back(last_);
    graph::GraphBuilder& builder = replay.builder();
    builder.set_layer(node.layer);
    builder.set_stage(node.stage);
    const NodeId ended = builder.add("rank_sum_end", node.name, std::move(inputs),
                                     {{"rows_per_sample", open.rows}, {graph::kWaits, true}});
    Graph& made = builder.mutable_graph();
    const std::vector<ValueId> outputs = made.node(ended).outputs;
    const std::vector<NodeId> held = later_.take();
    for (size_t i = 0; i < outputs.size(); ++i) {
      made.value(outputs[i]).name = graph_.value(node.outputs[i]).name;
      replay.replace(node.outputs[i], outputs[i]);
      later_.set_late(node.outputs[i], false);
    }
    for (NodeId each : held) add(replay, each);
  }

  const Graph& graph_;
  LateNodes later_;
  Open open_;
  ValueId last_;  // what the exchange before gives
};

}  // namespace

Graph split_rank_sums(const Graph& graph, const graph::OpRegistry& registry) {
  Beside beside(graph);
  return Replay(graph, registry).run([&](Replay& replay, NodeId id) { beside.visit(replay, id); });
}

}  // namespace plimsoll::ops
