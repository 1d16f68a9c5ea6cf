#include "plan/tree/loop_nest.h"

#include <algorithm>

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;

// An inner loop must make at least this much smaller: its iterations cost time.
constexpr int64_t kWorthALoopBytes = 64 << 10;

class LoopNestMaker {
 public:
  LoopNestMaker(const ProgramFacts& facts, const Dependencies& dependencies,
                std::span<const std::vector<NodeId>> slots, std::span<const PhaseShape> shapes)
      : facts_(facts), dependencies_(dependencies), shapes_(shapes) {
    slot_of_.resize(facts.graph().nodes.size());
    run_of_.resize(facts.graph().nodes.size());
    for (size_t s = 0; s < slots.size(); ++s) {
      for (NodeId node : slots[s]) slot_of_[node.index()] = s;
    }
  }

  LoopNest make(std::span<const Stretch> stretches) {
    for (const Stretch& stretch : stretches) {
      std::vector<NestItem> items;
      const int64_t rows = stretch.slice == 0 ? facts_.batch() : stretch.slice;
      nest(stretch.nodes, rows, items);
      if (stretch.slice == 0) {
        loop_nest_.items.insert(loop_nest_.items.end(), items.begin(), items.end());
      } else {
        loop_nest_.items.push_back(add_loop(stretch.slice, std::move(items), stretch.extent));
      }
    }
    loop_nest_.axis = dependencies_.axis;
    return std::move(loop_nest_);
  }

 private:
  NestItem add_loop(int64_t slice, std::vector<NestItem> items, int64_t extent = 0) {
    loop_nest_.loops.push_back({slice, std::move(items), extent});
    return {NodeId(), static_cast<int32_t>(loop_nest_.loops.size() - 1)};
  }

  const AxisRole& role(NodeId node) const { return dependencies_.roles[node.index()]; }

  // Appends the nodes of a body that has so many rows, runs of small ones inside inner loops.
  void nest(std::span<const NodeId> nodes, int64_t rows, std::vector<NestItem>& items) {
    for (size_t i = 0; i < nodes.size();) {
      const size_t end = find_run(nodes, i, rows);
      const std::span<const NodeId> run = nodes.subspan(i, end - i);
      if (run.empty() || !is_worth_a_loop(run, rows)) {
        const size_t next = std::max(end, i + 1);
        for (; i < next; ++i) items.push_back({nodes[i], -1});
        continue;
      }
      const PhaseShape& shape = shapes_[slot_of_[nodes[i].index()] / 2];
      const int64_t slice = shape.inner == kNestFully ? find_unit(dependencies_, run) : shape.inner;
      std::vector<NestItem> inside;
      if (shape.inner == kNestFully) {
        nest(run, slice, inside);
      } else {
        for (NodeId node : run) inside.push_back({node, -1});
      }
      items.push_back(add_loop(slice, std::move(inside)));
      i = end;
    }
  }

  // The end of the run of nodes from `begin` on that may share an inner loop.
  size_t find_run(std::span<const NodeId> nodes, size_t begin, int64_t rows) const {
    const size_t slot = slot_of_[nodes[begin].index()];
    if (slot % 2 == 0) return begin;
    const int64_t inner = shapes_[slot / 2].inner;
    if (inner == 0 || inner >= rows) return begin;
    int64_t common = inner == kNestFully ? 1 : inner;
    size_t end = begin;
    for (; end < nodes.size() && slot_of_[nodes[end].index()] == slot; ++end) {
      const int64_t both = common_unit(dependencies_, common, role(nodes[end]).unit);
      if (inner == kNestFully ? both >= rows : both > inner) break;
      common = both;
    }
    return end;
  }

  bool is_worth_a_loop(std::span<const NodeId> run, int64_t rows) {
    ++runs_;
    for (NodeId node : run) run_of_[node.index()] = runs_;
    const auto inside = [&](NodeId node) { return run_of_[node.index()] == runs_; };
    int64_t saved = 0;
    for (NodeId id : run) {
      for (ValueId output : facts_.graph().node(id).outputs) {
        const std::vector<NodeId>& users = facts_.users()[output.index()];
        if (!is_carried(facts_, dependencies_, output) || users.empty()) continue;
        if (!std::ranges::all_of(users, inside)) continue;
        const graph::ValueType& type = facts_.graph().value(output).type;
        saved += row_bytes(type.dtype, type.shape).count() * rows;
        if (saved >= kWorthALoopBytes) return true;
      }
    }
    return false;
  }

  const ProgramFacts& facts_;
  const Dependencies& dependencies_;
  std::span<const PhaseShape> shapes_;
  std::vector<size_t> slot_of_;
  std::vector<size_t> run_of_;  // the last run that a node was looked at in
  size_t runs_ = 0;
  LoopNest loop_nest_;
};

}  // namespace

int64_t find_unit(const Dependencies& dependencies, std::span<const NodeId> nodes) {
  int64_t unit = 1;
  for (NodeId node : nodes) {
    unit = common_unit(dependencies, unit, dependencies.roles[node.index()].unit);
  }
  return unit;
}

LoopNest make_loop_nest(const ProgramFacts& facts, const Dependencies& dependencies,
                        std::span<const std::vector<NodeId>> slots,
                        std::span<const PhaseShape> shapes, OrderRule rule) {
  std::vector<Stretch> stretches;
  for (size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].empty()) continue;
    const int64_t extent = find_extent(facts, dependencies, slots[s]);
    const bool looped = s % 2 == 1 && shapes[s / 2].slice < extent;
    if (looped || stretches.empty() || stretches.back().slice != 0) {
      stretches.push_back({{}, looped ? shapes[s / 2].slice : 0, looped ? extent : 0});
    }
    std::vector<NodeId>& nodes = stretches.back().nodes;
    nodes.insert(nodes.end(), slots[s].begin(), slots[s].end());
  }
  order_stretches(facts, dependencies, rule, stretches);
  return LoopNestMaker(facts, dependencies, slots, shapes).make(stretches);
}

LoopNest make_flat_loop_nest(const ProgramFacts& facts) {
  LoopNest loop_nest;
  for (size_t n = 0; n < facts.graph().nodes.size(); ++n) {
    loop_nest.items.push_back({NodeId(n), -1});
  }
  return loop_nest;
}

}  // namespace plimsoll::plan
