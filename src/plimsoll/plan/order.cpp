#include "plan/order.h"

#include <algorithm>
#include <limits>

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
    find_values();
  }

  std::vector<NodeId> order(const Stretch& stretch) {
    stretch_ = &stretch;
    std::vector<size_t> waiting(graph_.nodes.size());
    std::vector<Ready> ready;
    for (NodeId node : stretch.nodes) {
      for (NodeId before : dependencies_.before[node.index()]) {
        if (same_stretch(before, node)) ++waiting[node.index()];
      }
      if (waiting[node.index()] == 0) ready.push_back({node, delta(node)});
    }
    std::vector<NodeId> result;
    while (!ready.empty()) {
      const auto best = std::ranges::min_element(
          ready, [&](const Ready& a, const Ready& b) { return is_better(a, b); });
      const NodeId node = best->node;
      ready.erase(best);
      result.push_back(node);
      finish(node, ready);
      for (NodeId next : dependencies_.after[node.index()]) {
        if (same_stretch(next, node) && --waiting[next.index()] == 0) {
          ready.push_back({next, delta(next)});
        }
      }
    }
    PLIMSOLL_CHECK(result.size() == stretch.nodes.size(), "a stretch has no circles");
    return result;
  }

 private:
  struct Ready {
    NodeId node;
    int64_t delta = 0;
  };

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
    return turn_bytes(facts_, dependencies_, id, stretch_->slice == 0 ? kAllRows : stretch_->slice);
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

  void finish(NodeId id, std::vector<Ready>& ready) {
    std::vector<ValueId> inputs = graph_.node(id).inputs;
    std::ranges::sort(inputs);
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (ValueId input : inputs) {
      --remaining_[input.index()];
      if (rule_ == OrderRule::kGraph) continue;
      for (Ready& other : ready) {
        const auto& names = graph_.node(other.node).inputs;
        if (std::ranges::find(names, input) != names.end()) other.delta = delta(other.node);
      }
    }
  }

  bool is_better(const Ready& a, const Ready& b) const {
    if (rule_ == OrderRule::kSmallest && a.delta != b.delta) return a.delta < b.delta;
    if (rule_ == OrderRule::kFreeFirst && std::min(a.delta, b.delta) <= 0 && a.delta != b.delta) {
      return a.delta < b.delta;
    }
    return rank_[a.node.index()] < rank_[b.node.index()];
  }

  const ProgramFacts& facts_;
  const graph::Graph& graph_;
  const Dependencies& dependencies_;
  OrderRule rule_;
  const Stretch* stretch_ = nullptr;
  std::vector<size_t> stretch_of_;
  std::vector<size_t> rank_;
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
