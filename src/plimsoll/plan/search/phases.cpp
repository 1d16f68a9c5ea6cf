#include "plan/search/phases.h"

#include <algorithm>
#include <functional>
#include <map>

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;

class SlotFinder {
 public:
  SlotFinder(const ProgramFacts& facts, const Dependencies& dependencies, bool deferred_updates)
      : facts_(facts),
        graph_(facts.graph()),
        dependencies_(dependencies),
        deferred_updates_(deferred_updates),
        slots_(graph_.nodes.size()),
        free_(graph_.nodes.size()) {}

  std::vector<std::vector<NodeId>> find() {
    for (NodeId node : dependencies_.order) find_earliest(node);
    if (deferred_updates_) move_updates();
    for (size_t i = dependencies_.order.size(); i-- > 0;) move_later(dependencies_.order[i]);
    std::vector<std::vector<NodeId>> result(1);
    for (NodeId node : dependencies_.order) {
      const size_t slot = static_cast<size_t>(slots_[node.index()]);
      if (slot >= result.size()) result.resize(slot + 1);
      result[slot].push_back(node);
    }
    return split_by_extent(result);
  }

 private:
  // Phases of several extents fall apart: nothing in one needs another of the same slot.
  std::vector<std::vector<NodeId>> split_by_extent(
      const std::vector<std::vector<NodeId>>& slots) const {
    std::vector<std::vector<NodeId>> result;
    for (size_t s = 0; s < slots.size(); ++s) {
      if (s % 2 == 0) {
        result.push_back(slots[s]);
        continue;
      }
      std::map<int64_t, std::vector<NodeId>, std::greater<>> parts;
      for (NodeId node : slots[s]) parts[dependencies_.roles[node.index()].extent].push_back(node);
      bool first = true;
      for (auto& [extent, nodes] : parts) {
        if (!first) result.emplace_back();
        result.push_back(std::move(nodes));
        first = false;
      }
      if (parts.empty()) result.emplace_back();
    }
    return result;
  }

  bool sliced(NodeId node) const { return dependencies_.roles[node.index()].sliced; }

  // How many slots lie between a node and one that must come after it.
  int lag(NodeId first, NodeId second) const {
    if (!sliced(first)) return sliced(second) ? 1 : 0;
    if (!sliced(second)) return 1;
    return needs_total(first, second) ? 2 : 0;
  }

  // Whether `second` reads a sum over the batch of `first`, or overwrites what it reads.
  bool needs_total(NodeId first, NodeId second) const {
    bool reads = false;
    const std::vector<ValueId>& inputs = graph_.node(second).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const graph::Value& value = graph_.value(inputs[i]);
      if (value.kind != graph::ValueKind::kNode || value.producer != first) continue;
      reads = true;
      if (!shares_iterations(facts_, dependencies_, second, i)) return true;
    }
    return !reads;
  }

  void find_earliest(NodeId node) {
    int slot = sliced(node) ? 1 : 0;
    bool free = true;
    for (NodeId before : dependencies_.before[node.index()]) {
      slot = std::max(slot, slots_[before.index()] + lag(before, node));
      free = free && free_[before.index()] && lag(before, node) < 2 &&
             (sliced(node) || !sliced(before));
    }
    slots_[node.index()] = slot;
    free_[node.index()] = free;
  }

  void move_later(NodeId node) {
    const std::vector<NodeId>& after = dependencies_.after[node.index()];
    if (after.empty()) return;
    int latest = slots_[after.front().index()] - lag(node, after.front());
    for (NodeId next : after) latest = std::min(latest, slots_[next.index()] - lag(node, next));
    if (latest <= slots_[node.index()]) return;
    if (free_[node.index()] || (sliced(node) && crosses_smaller(node, latest))) {
      slots_[node.index()] = latest;
    }
  }

  void move_updates() {
    if (slots_.empty()) return;
    const int most = *std::ranges::max_element(slots_);
    const int last = most + most % 2;
    for (size_t i = dependencies_.order.size(); i-- > 0;) {
      const NodeId node = dependencies_.order[i];
      if (graph_.node(node).stage != graph::Stage::kUpdate || sliced(node)) continue;
      int latest = last;
      for (NodeId next : dependencies_.after[node.index()]) {
        latest = std::min(latest, slots_[next.index()] - lag(node, next));
      }
      slots_[node.index()] = latest;
    }
  }

  int64_t sample_bytes(ValueId value) const {
    const graph::ValueType& type = graph_.value(value).type;
    return row_bytes(type.dtype, type.shape).count();
  }

  // Whether fewer bytes go on to slot `latest` when the node moves there: its operands instead of
  // its results.
  bool crosses_smaller(NodeId node, int latest) const {
    int64_t results = 0;
    for (ValueId output : graph_.node(node).outputs) {
      if (!facts_.users()[output.index()].empty()) results += sample_bytes(output);
    }
    int64_t operands = 0;
    for (ValueId input : graph_.node(node).inputs) {
      if (graph_.value(input).kind != graph::ValueKind::kNode) continue;
      if (!is_carried(facts_, dependencies_, input)) continue;
      const auto crosses = [&](NodeId user) { return slots_[user.index()] >= latest; };
      if (std::ranges::none_of(facts_.users()[input.index()], crosses)) {
        operands += sample_bytes(input);
      }
    }
    return operands < results;
  }

  const ProgramFacts& facts_;
  const graph::Graph& graph_;
  const Dependencies& dependencies_;
  bool deferred_updates_;
  std::vector<int> slots_;
  std::vector<bool> free_;  // depends on inputs, states and constants alone, not on any total
};

}  // namespace

std::vector<std::vector<NodeId>> find_slots(const ProgramFacts& facts,
                                            const Dependencies& dependencies,
                                            bool deferred_updates) {
  return SlotFinder(facts, dependencies, deferred_updates).find();
}

}  // namespace plimsoll::plan
