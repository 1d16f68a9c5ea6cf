#include "plan/facts/order.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;

class ListScheduler {
 public:
  ListScheduler(const ProgramFacts& facts, const Dependencies& dependencies, OrderRule rule,
                std::span<const Stretch> stretches)
      : facts_(facts), graph_(facts.graph()), dependencies_(dependencies), rule_(rule) {
    stretch_of_.resize(graph_.nodes.size());
    for (size_t s = 0; s < stretches.size(); ++s) {
      for (NodeId node : stretches[s].nodes) stretch_of_[node.index()] = s;
    }
    rank_.resize(graph_.nodes.size());
    for (size_t i = 0; i < dependencies.order.size(); ++i) {
      rank_[dependencies.order[i].index()] = i;
    }
    keys_.resize(graph_.nodes.size());
    is_ready_.resize(graph_.nodes.size());
    waiting_.resize(graph_.nodes.size());
    find_values();
  }

  std::vector<NodeId> order(const Stretch& stretch) {
    stretch_ = &stretch;
    for (NodeId node : stretch.nodes) {
      for (NodeId before : dependencies_.before[node.index()]) {
        if (same_stretch(before, node)) ++waiting_[node.index()];
      }
      if (waiting_[node.index()] == 0) make_ready(node);
    }
    std::vector<NodeId> result;
    while (!ready_.empty()) {
      const NodeId node = dependencies_.order[ready_.begin()->second];
      ready_.erase(ready_.begin());
      is_ready_[node.index()] = false;
      result.push_back(node);
      finish(node);
      for (NodeId next : dependencies_.after[node.index()]) {
        if (same_stretch(next, node) && --waiting_[next.index()] == 0) make_ready(next);
      }
    }
    PLIMSOLL_CHECK(result.size() == stretch.nodes.size(), "a stretch has no circles");
    return result;
  }

 private:
  // How well a node stands by the rule, then its place in the order: the least is taken.
  using Key = std::pair<int64_t, size_t>;

  Key key(NodeId node) const {
    const size_t place = rank_[node.index()];
    if (rule_ == OrderRule::kGraph) return {0, place};
    return {rule_ == OrderRule::kSmallest ? delta(node) : std::min<int64_t>(delta(node), 1), place};
  }

  void make_ready(NodeId node) {
    keys_[node.index()] = key(node);
    ready_.insert(keys_[node.index()]);
    is_ready_[node.index()] = true;
  }

  bool same_stretch(NodeId a, NodeId b) const {
    return stretch_of_[a.index()] == stretch_of_[b.index()];
  }

  void find_values() {
    remaining_.resize(graph_.values.size());
    local_.resize(graph_.values.size());
    is_update_.resize(graph_.values.size());
    for (ValueId value : dependencies_.updates) {
      if (value.valid()) is_update_[value.index()] = true;
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const std::vector<NodeId>& users = facts_.users()[v];
      remaining_[v] = users.size();
      users_.push_back(users.size());
      if (users.empty()) continue;
      const graph::Value& value = graph_.values[v];
      const NodeId first = value.kind == graph::ValueKind::kNode ? value.producer : users.front();
      local_[v] = std::ranges::all_of(users, [&](NodeId u) { return same_stretch(u, first); });
    }
  }

  // Bytes that the value adds while it is alive in the current stretch; 0 where it lives around it.
  int64_t bytes(ValueId id) const {
    const graph::Value& value = graph_.value(id);
    if (value.kind == graph::ValueKind::kState || is_update_[id.index()]) return 0;
    const bool carried = is_carried(facts_, dependencies_, id);
    if (stretch_->slice != 0 && !(carried && local_[id.index()])) return 0;
    constexpr int64_t kAllRows = std::numeric_limits<int64_t>::max();
    return iteration_bytes(facts_, dependencies_, id,
                           stretch_->slice == 0 ? kAllRows : stretch_->slice);
  }

  int64_t delta(NodeId id) const {
    int64_t sum = 0;
    const graph::Node& node = graph_.node(id);
    for (ValueId output : node.outputs) {
      if (remaining_[output.index()] > 0) sum += bytes(output);
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      const auto first = std::ranges::find(node.inputs, input) - node.inputs.begin();
      if (first != static_cast<int64_t>(i)) continue;
      const bool fed = graph_.value(input).kind == graph::ValueKind::kInput;
      const bool dies = remaining_[input.index()] == 1;
      if (dies && !fed) sum -= bytes(input);
      // The first reader brings an input in, the last one lets it go.
      const size_t users = users_[input.index()];
      if (fed && !dies && remaining_[input.index()] == users) sum += bytes(input);
      if (fed && dies && users > 1) sum -= bytes(input);
    }
    return sum;
  }

  void finish(NodeId id) {
    std::vector<ValueId> inputs = graph_.node(id).inputs;
    std::ranges::sort(inputs);
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (ValueId input : inputs) {
      const size_t left = --remaining_[input.index()];
      // The others stand as before unless the first reader or the last but one is done.
      const bool changes = left == 1 || left + 1 == users_[input.index()];
      if (rule_ == OrderRule::kGraph || !changes) continue;
      for (NodeId other : facts_.users()[input.index()]) {
        if (!is_ready_[other.index()]) continue;
        ready_.erase(keys_[other.index()]);
        make_ready(other);
      }
    }
  }

  const ProgramFacts& facts_;
  const graph::Graph& graph_;
  const Dependencies& dependencies_;
  OrderRule rule_;
  const Stretch* stretch_ = nullptr;
  std::vector<size_t> stretch_of_;
  std::vector<size_t> rank_;
  std::set<Key> ready_;
  std::vector<Key> keys_;  // per node that is ready
  std::vector<bool> is_ready_;
  std::vector<size_t> waiting_;    // per node: those in front of it in its stretch, to come
  std::vector<size_t> remaining_;  // readers of each value that are still to come
  std::vector<size_t> users_;      // readers in all
  std::vector<bool> local_;        // producer and readers are in one stretch
  std::vector<bool> is_update_;
};

}  // namespace

std::string_view to_string(OrderRule rule) {
  switch (rule) {
    case OrderRule::kGraph:
      return "graph order";
    case OrderRule::kFreeFirst:
      return "what frees first";
    case OrderRule::kSmallest:
      return "what adds least";
  }
  return "unknown";
}

void order_stretches(const ProgramFacts& facts, const Dependencies& dependencies, OrderRule rule,
                     std::span<Stretch> stretches) {
  ListScheduler scheduler(facts, dependencies, rule, stretches);
  for (Stretch& stretch : stretches) stretch.nodes = scheduler.order(stretch);
}

}  // namespace plimsoll::plan
