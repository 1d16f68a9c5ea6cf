#include "plan/tree/tree.h"

#include <algorithm>
#include <map>

#include "plan/tree/complete.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;
using graph::ValueKind;

// A body (−1: the root, else a loop of the loop nest) and a place in it.
struct Place {
  int32_t body = -1;
  size_t position = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// One copy of an input and the nodes that read it.
struct FeedGroup {
  ValueId value;
  std::vector<NodeId> readers;
  int copy = 0;
  InstanceId instance;
};

class TreeBuilder {
 public:
  TreeBuilder(const LoopNest& loop_nest, const ProgramFacts& facts, const TreeOptions& options)
      : loop_nest_(loop_nest), facts_(facts), graph_(facts.graph()), options_(options) {
    nodes_.resize(graph_.nodes.size());
    loops_.resize(loop_nest.loops.size());
    computed_.resize(graph_.values.size());
    find_places(loop_nest.items, -1);
    find_first_values();
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].kind == ValueKind::kInput) find_feeds(ValueId(v));
    }
    find_outputs();
  }

  ProgramPlan build() {
    plan_.name = facts_.program().name;
    plan_.batch = facts_.batch();
    plan_.lane = facts_.lane();
    emit_body(loop_nest_.items, -1, plan_.items, facts_.batch());
    return std::move(plan_);
  }

 private:
  void find_places(const std::vector<NestItem>& items, int32_t body) {
    for (size_t i = 0; i < items.size(); ++i) {
      const Place place{body, i};
      if (items[i].loop < 0) {
        nodes_[items[i].node.index()] = place;
      } else {
        loops_[static_cast<size_t>(items[i].loop)] = place;
        find_places(loop_nest_.loops[static_cast<size_t>(items[i].loop)].items, items[i].loop);
      }
    }
  }

  // Values that are made for a variable whose incoming value this program does not know: they are
  // computed in its place.
  void find_first_values() {
    first_values_.resize(graph_.values.size());
    for (const graph::StateVariable& state : graph_.states) {
      if (!state.write.valid() || state.incoming.valid()) continue;
      const ValueId value = graph_.node(state.write).inputs[0];
      const graph::Value& v = graph_.value(value);
      first_values_[value.index()] =
          v.kind == ValueKind::kNode && nodes_[v.producer.index()].body < 0 &&
          !graph_.node(v.producer).op->traits().view && facts_.users()[value.index()].size() == 1 &&
          std::ranges::find(graph_.outputs, value) == graph_.outputs.end();
    }
  }

  // The item of `body` in which the node stands.
  Place place_in(NodeId node, int32_t body) const {
    Place place = nodes_[node.index()];
    while (place.body != body) place = loops_[static_cast<size_t>(place.body)];
    return place;
  }

  bool holds(int32_t body, NodeId node) const {
    int32_t here = nodes_[node.index()].body;
    while (here != body && here >= 0) here = loops_[static_cast<size_t>(here)].body;
    return here == body;
  }

  // The innermost body that holds all the nodes.
  int32_t common_body(const std::vector<NodeId>& nodes) const {
    int32_t body = nodes_[nodes.front().index()].body;
    for (NodeId node : nodes) {
      while (!holds(body, node)) body = loops_[static_cast<size_t>(body)].body;
    }
    return body;
  }

  void find_feeds(ValueId value) {
    const std::vector<NodeId>& readers = facts_.users()[value.index()];
    int copies = 0;
    if (readers.empty()) return;
    loop_nest_.axis.of_samples() ? split_feed(value, readers, copies)
                                 : feed_whole(value, readers, copies);
  }

  // In front of loops; with `reread` for each of them anew.
  void feed_whole(ValueId value, const std::vector<NodeId>& readers, int& copies) {
    std::map<Place, std::vector<NodeId>> parts;
    for (NodeId reader : readers) parts[place_in(reader, -1)].push_back(reader);
    if (!options_.reread) {
      feeds_[parts.begin()->first].push_back(groups_.size());
      groups_.push_back({value, readers, copies++, {}});
      return;
    }
    for (const auto& [place, nodes] : parts) {
      feeds_[place].push_back(groups_.size());
      groups_.push_back({value, nodes, copies++, {}});
    }
  }

  void split_feed(ValueId value, const std::vector<NodeId>& readers, int& copies) {
    const int32_t body = common_body(readers);
    std::map<Place, std::vector<NodeId>> parts;
    bool direct = false;
    for (NodeId reader : readers) {
      direct = direct || nodes_[reader.index()].body == body;
      parts[place_in(reader, body)].push_back(reader);
    }
    if (options_.reread && !direct && graph_.value(value).type.shape.has_batch()) {
      for (const auto& [place, nodes] : parts) split_feed(value, nodes, copies);
      return;
    }
    feeds_[parts.begin()->first].push_back(groups_.size());
    groups_.push_back({value, readers, copies++, {}});
  }

  // After the call, or after the outermost loop that adds up into the output.
  void find_outputs() {
    std::vector<ValueId> outputs = graph_.outputs;
    std::ranges::sort(outputs);
    outputs.erase(std::unique(outputs.begin(), outputs.end()), outputs.end());
    for (ValueId output : outputs) {
      const graph::Value& value = graph_.value(output);
      if (value.kind != ValueKind::kNode) {
        early_outputs_.push_back(output);
        continue;
      }
      Place place = nodes_[value.producer.index()];
      const bool carried = loop_nest_.axis.use_in(value.type).dimension >= 0;
      while (!carried && place.body >= 0) {
        place = loops_[static_cast<size_t>(place.body)];
      }
      outputs_[place].push_back(output);
    }
  }

  void emit_body(const std::vector<NestItem>& items, int32_t body, std::vector<Item>& target,
                 int64_t rows) {
    if (body < 0) emit_early_outputs(target);
    for (size_t i = 0; i < items.size(); ++i) {
      const Place place{body, i};
      if (const auto feeds = feeds_.find(place); feeds != feeds_.end()) {
        for (size_t group : feeds->second) emit_feed(groups_[group], target);
      }
      if (items[i].loop < 0) {
        emit_call(items[i].node, target);
      } else {
        emit_loop(items[i].loop, target, rows);
      }
      if (const auto outputs = outputs_.find(place); outputs != outputs_.end()) {
        for (ValueId value : outputs->second) target.push_back(Output{computed_[value.index()]});
      }
    }
  }

  void emit_loop(int32_t loop, std::vector<Item>& target, int64_t rows) {
    const NestLoop& source = loop_nest_.loops[static_cast<size_t>(loop)];
    const size_t index = plan_.loops.size();
    if (source.extent != 0) rows = source.extent;
    const int64_t slice = std::min(source.slice, rows);
    plan_.loops.push_back({loop_nest_.axis, rows, slice, {}});
    target.push_back(Enter{LoopId(index)});
    std::vector<Item> items;
    emit_body(source.items, loop, items, slice);
    plan_.loops[index].items = std::move(items);
  }

  InstanceId add_instance(ValueId value, int copy, Space space) {
    Instance instance;
    instance.value = value;
    instance.copy = copy;
    instance.space = space;
    instance.scope = kAutoScope;
    plan_.instances.push_back(std::move(instance));
    return InstanceId(plan_.instances.size() - 1);
  }

  void emit_feed(FeedGroup& group, std::vector<Item>& target) {
    group.instance = add_instance(group.value, group.copy, Space::kArena);
    for (NodeId reader : group.readers) fed_[{reader, group.value}] = group.instance;
    target.push_back(Feed{group.instance});
  }

  // Outputs that are inputs or incoming values of states: handed out before anything changes them.
  void emit_early_outputs(std::vector<Item>& target) {
    for (ValueId value : early_outputs_) {
      if (graph_.value(value).kind == ValueKind::kState) {
        target.push_back(Output{read_instance(value, NodeId())});
      } else {
        const InstanceId instance = add_instance(value, kOutputCopy, Space::kArena);
        target.push_back(Feed{instance});
        target.push_back(Output{instance});
      }
    }
  }

  InstanceId read_instance(ValueId value, NodeId reader) {
    if (graph_.value(value).kind == ValueKind::kInput) return fed_.at({reader, value});
    InstanceId& instance = computed_[value.index()];
    if (!instance.valid()) instance = add_instance(value, 0, Space::kState);
    return instance;
  }

  void emit_call(NodeId id, std::vector<Item>& target) {
    const graph::Node& node = graph_.node(id);
    Call call;
    call.node = id;
    for (ValueId input : node.inputs) call.inputs.push_back(read_instance(input, id));
    const auto is_used = [&](ValueId value) {
      return !facts_.users()[value.index()].empty() ||
             std::ranges::find(graph_.outputs, value) != graph_.outputs.end();
    };
    // A node that nobody reads at all keeps its results: kernels need somewhere to write.
    const bool dead = std::ranges::none_of(node.outputs, is_used);
    for (ValueId output : node.outputs) {
      if (dead || is_used(output)) {
        const bool first = first_values_[output.index()];
        computed_[output.index()] = add_instance(output, 0, first ? Space::kState : Space::kArena);
      }
      call.outputs.push_back(computed_[output.index()]);
    }
    target.push_back(std::move(call));
  }

  static constexpr int kOutputCopy = 1 << 20;

  const LoopNest& loop_nest_;
  const ProgramFacts& facts_;
  const graph::Graph& graph_;
  TreeOptions options_;
  std::vector<Place> nodes_;
  std::vector<Place> loops_;
  std::vector<FeedGroup> groups_;
  std::map<Place, std::vector<size_t>> feeds_;     // before the item
  std::map<Place, std::vector<ValueId>> outputs_;  // after it
  std::vector<ValueId> early_outputs_;
  std::map<std::pair<NodeId, ValueId>, InstanceId> fed_;
  std::vector<bool> first_values_;
  std::vector<InstanceId> computed_;  // per value: what its producer writes, or its state's memory
  ProgramPlan plan_;
};

}  // namespace

ProgramPlan build_tree(const LoopNest& loop_nest, const ProgramFacts& facts,
                       const TreeOptions& options) {
  return TreeBuilder(loop_nest, facts, options).build();
}

}  // namespace plimsoll::plan
