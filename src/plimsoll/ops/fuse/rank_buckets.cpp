#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ceil_div.h"
#include "ops/fuse/late_nodes.h"
#include "ops/fuse/rank_messages.h"
#include "ops/fuse/rewrite.h"

namespace plimsoll::ops {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr std::string_view kSum = "rank_sum";

// Sums wait until their bucket is full, or until one is needed by what has samples: statistics of
// a BatchNormalization, a divisor of the loss. What needs them for an update alone waits too.
class Buckets {
 public:
  Buckets(const Graph& graph, const BucketSizes& sizes)
      : graph_(graph), sizes_(sizes), later_(graph) {}

  void visit(Replay& replay, NodeId id) {
    add(replay, id);
    const bool last = id.index() + 1 == graph_.nodes.size();
    while (last && !waiting_.empty()) flush(replay);
  }

 private:
  void add(Replay& replay, NodeId id) {
    const Node& node = graph_.node(id);
    while (later_.is_urgent(id) && later_.is_late(id)) flush(replay);
    if (later_.is_late(id)) {
      later_.hold(id);
    } else if (fits_bucket(node)) {
      while (!has_room_for(node)) flush(replay);
      waiting_.push_back(id);
      bytes_ += bytes_of(node);
      merges_ |= is_merged(node);
      later_.set_late(node.outputs[0], true);
    } else if (node.op->traits().exchanges) {
      emit_exchange(replay, id);
    } else {
      replay.copy(id, replay.mapped(node.inputs));
    }
  }

  static bool is_merged(const Node& node) { return node.attributes.get_int("rows_per_sample") > 0; }

  // In a message, where it begins at a multiple of 8.
  int64_t bytes_of(const Node& node) const {
    const graph::ValueType& type = graph_.value(node.inputs[0]).type;
    return round_up(tensor_bytes(type.dtype, type.shape, 1).count(), 8);
  }

  bool fits_bucket(const Node& node) const {
    if (node.op->name() != kSum) return false;
    return bytes_of(node) <= (is_merged(node) ? graph::kMostWholeBytes : sizes_.sum);
  }

  // What is merged goes whole, and so does all that is in a message with it.
  bool has_room_for(const Node& node) const {
    const bool whole = merges_ || is_merged(node);
    const int64_t most = whole ? std::min(graph::kMostWholeBytes, sizes_.bucket) : sizes_.bucket;
    return waiting_.empty() || bytes_ + bytes_of(node) <= most;
  }

  void emit_exchange(Replay& replay, NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs = replay.mapped(later_.operands_of(node));
    if (last_.valid()) inputs.push_back(last_);
    replay.copy(id, std::move(inputs));
    last_ = replay.mapped(node.outputs.back());
  }

  // The sums that wait go in one message, and what waits for them comes after it.
  void flush(Replay& replay) {
    const std::vector<NodeId> sums = std::exchange(waiting_, {});
    const std::vector<NodeId> held = later_.take();
    bytes_ = 0;
    merges_ = false;
    for (NodeId sum : sums) later_.set_late(graph_.node(sum).outputs[0], false);
    if (sums.size() == 1) {
      emit_exchange(replay, sums[0]);
    } else {
      emit_bucket(replay, sums);
    }
    for (NodeId node : held) add(replay, node);
  }

  void emit_bucket(Replay& replay, const std::vector<NodeId>& sums) {
    std::vector<ValueId> inputs;
    std::vector<int64_t> rows;
    for (NodeId sum : sums) {
      const Node& node = graph_.node(sum);
      inputs.push_back(replay.mapped(node.inputs[0]));
      rows.push_back(node.attributes.get_int("rows_per_sample"));
    }
    if (last_.valid()) inputs.push_back(last_);
    graph::GraphBuilder& builder = replay.builder();
    builder.set_layer(graph_.node(sums.back()).layer);
    builder.set_stage(graph_.node(sums.back()).stage);
    const NodeId added = builder.add("rank_sums", "bucket/ranks", std::move(inputs),
                                     {{"rows_per_sample", std::move(rows)}});
    Graph& made = builder.mutable_graph();
    const std::vector<ValueId> outputs = made.node(added).outputs;
    for (size_t i = 0; i < sums.size(); ++i) {
      const ValueId old = graph_.node(sums[i]).outputs[0];
      made.value(outputs[i]).name = graph_.value(old).name;
      replay.replace(old, outputs[i]);
    }
    last_ = outputs.back();
  }

  const Graph& graph_;
  BucketSizes sizes_;
  LateNodes later_;
  std::vector<NodeId> waiting_;  // sums of one bucket
  int64_t bytes_ = 0;            // of them
  bool merges_ = false;          // one of them is merged
  ValueId last_;                 // what the exchange before gives
};

}  // namespace

Graph join_rank_sums(const Graph& graph, const graph::OpRegistry& registry,
                     const BucketSizes& sizes) {
  Buckets buckets(graph, sizes);
  return Replay(graph, registry).run([&](Replay& replay, NodeId id) { buckets.visit(replay, id); });
}

}  // namespace plimsoll::ops
