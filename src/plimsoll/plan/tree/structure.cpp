#include "plan/tree/structure.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "plan/core/walk.h"
#include "plan/tree/complete.h"

namespace plimsoll::plan {
namespace {

class StructureCheck {
 public:
  StructureCheck(const ProgramPlan& plan, const ProgramFacts& facts)
      : plan_(plan), graph_(facts.graph()) {}

  void run() {
    for (const Instance& instance : plan_.instances) {
      const bool scope = !instance.scope.valid() || instance.scope.index() < plan_.loops.size();
      const bool source = !instance.in_place.valid() || exists(instance.in_place);
      if (!scope || !source || !instance.value.valid() ||
          instance.value.index() >= graph_.values.size()) {
        fail(fmt::format("instance %{}", &instance - plan_.instances.data()),
             "expected its value, scope and in_place to exist, received one that does not.");
      }
    }
    check_items(plan_.items);
    if (entered_ != plan_.loops.size()) {
      fail("loops", fmt::format("expected each loop to be entered once, received {} that are not.",
                                plan_.loops.size() - entered_));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& where, const std::string& what) const {
    throw Error(ErrorKind::kConfig, "plan, program " + plan_.name + ", " + where + ": " + what);
  }
  bool exists(InstanceId id) const { return id.valid() && id.index() < plan_.instances.size(); }

  void expect(InstanceId id, const std::string& where) const {
    if (!exists(id)) {
      fail(where,
           fmt::format("expected an instance, received %{}, which does not exist. Declare it.",
                       id.raw()));
    }
  }
  void expect_value(InstanceId id, graph::ValueId value, const std::string& where) const {
    expect(id, where);
    const graph::ValueId received = plan_.instances[id.index()].value;
    if (received != value) {
      fail(where, fmt::format("expected an instance of {}, received %{}, which is one of {}.",
                              graph_.value(value).name, id.raw(), graph_.value(received).name));
    }
  }
  void expect_copy(InstanceId source, InstanceId target, const std::string& where) const {
    expect(source, where);
    expect_value(target, plan_.instances[source.index()].value, where);
  }

  void check_items(const std::vector<Item>& items) {
    for (const Item& item : items) std::visit([this](const auto& what) { check(what); }, item);
  }

  void check(const Call& call) const {
    if (!call.node.valid() || call.node.index() >= graph_.nodes.size()) {
      fail("a call", "expected a node of the graph, received one that does not exist.");
    }
    const graph::Node& node = graph_.node(call.node);
    const std::string where = "call " + node.name;
    if (call.inputs.size() != node.inputs.size() || call.outputs.size() != node.outputs.size()) {
      fail(where,
           fmt::format("expected {} inputs and {} outputs, received {} and {}.", node.inputs.size(),
                       node.outputs.size(), call.inputs.size(), call.outputs.size()));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      expect_value(call.inputs[i], node.inputs[i], where);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (call.outputs[o].valid()) expect_value(call.outputs[o], node.outputs[o], where);
    }
    for (const auto& [loop, axis] : call.bindings) {
      if (!loop.valid() || loop.index() >= plan_.loops.size()) {
        fail(where, "expected bindings of loops that exist.");
      }
    }
  }
  void check(const Encode& encode) const { expect_copy(encode.source, encode.target, "encode"); }
  void check(const Feed& feed) const {
    expect(feed.target, "feed");
    const graph::Value& value = graph_.value(plan_.instances[feed.target.index()].value);
    if (value.kind != graph::ValueKind::kInput) {
      fail("feed", "expected an input of the program, received " + value.name + ".");
    }
  }
  void check(const Output& output) const { expect(output.source, "output"); }
  void check(const BeginTransfer& begin) const {
    expect_copy(begin.source, begin.target, fmt::format("begin t{}", begin.number));
  }
  void check(const WaitTransfer&) const {}
  void check(const Enter& enter) {
    if (enter.loop != LoopId(entered_) || entered_ >= plan_.loops.size()) {
      fail(
          "loops",
          fmt::format(
              "expected loops to be entered once each in the order of their numbers, received L{}.",
              enter.loop.raw()));
    }
    const Loop& loop = plan_.loops[entered_++];
    if (loop.slice < 1 || loop.extent < 0) {
      fail(fmt::format("loop L{}", enter.loop.raw()),
           fmt::format("expected a slice of at least 1, received {}.", loop.slice));
    }
    check_items(loop.items);
  }

  const ProgramPlan& plan_;
  const graph::Graph& graph_;
  size_t entered_ = 0;
};

// Loops by depth, for their common ancestor.
class LoopTree {
 public:
  explicit LoopTree(const ProgramPlan& plan) : parents_(find_parents(plan)) {
    for (LoopId parent : parents_) depths_.push_back(parent.valid() ? depth(parent) + 1 : 1);
  }
  std::span<const LoopId> parents() const { return parents_; }
  LoopId common(LoopId a, LoopId b) const {
    while (a != b) {
      if (depth(a) >= depth(b)) {
        a = parents_[a.index()];
      } else {
        b = parents_[b.index()];
      }
    }
    return a;
  }

 private:
  int depth(LoopId loop) const { return loop.valid() ? depths_[loop.index()] : 0; }
  std::vector<LoopId> parents_;
  std::vector<int> depths_;  // a parent stands before its children
};

// The innermost loop around the call in which its output `output` is whole: a sum lives outside of
// the loops that it is summed over.
LoopId find_sum_scope(const ProgramPlan& plan, std::span<const LoopId> parents, LoopId around,
                      const Call& call, const std::vector<graph::Axis>& axes, size_t output) {
  LoopId scope = around;
  for (LoopId loop = around; loop.valid(); loop = parents[loop.index()]) {
    const int axis = graph::find_axis(axes, find_bound_axis(plan, loop, &call));
    if (axis >= 0 && axes[static_cast<size_t>(axis)].outputs[output].dimension < 0) {
      scope = parents[loop.index()];
    }
  }
  return scope;
}

}  // namespace

void check_structure(const ProgramPlan& plan, const ProgramFacts& facts) {
  StructureCheck(plan, facts).run();
}

void find_scopes(ProgramPlan& plan, const AxisTable& axes) {
  const LoopTree tree(plan);
  std::vector<bool> seen(plan.instances.size());
  std::vector<LoopId> scopes(plan.instances.size());
  const auto use = [&](InstanceId id, LoopId where) {
    const size_t i = id.index();
    scopes[i] = seen[i] ? tree.common(scopes[i], where) : where;
    seen[i] = true;
  };
  walk_items(plan, [&](const Item& item, int64_t, LoopId around) {
    if (const auto* call = std::get_if<Call>(&item)) {
      for (InstanceId id : call->inputs) use(id, around);
      for (size_t o = 0; o < call->outputs.size(); ++o) {
        if (!call->outputs[o].valid()) continue;
        use(call->outputs[o],
            find_sum_scope(plan, tree.parents(), around, *call, axes[call->node.index()], o));
      }
    } else if (const auto* encode = std::get_if<Encode>(&item)) {
      use(encode->source, around);
      use(encode->target, around);
    } else if (const auto* feed = std::get_if<Feed>(&item)) {
      use(feed->target, around);
    } else if (const auto* output = std::get_if<Output>(&item)) {
      use(output->source, around);
    } else if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
      use(begin->source, around);
      use(begin->target, around);
    }
  });
  for (size_t i = 0; i < scopes.size(); ++i) {
    Instance& instance = plan.instances[i];
    if (instance.scope == kAutoScope) {
      instance.scope = instance.space == Space::kState ? LoopId() : scopes[i];
    }
  }
}

void find_loop_extents(ProgramPlan& plan, const ProgramFacts& facts) {
  const std::vector<LoopId> parents = find_parents(plan);
  for (size_t l = 0; l < plan.loops.size(); ++l) {
    if (plan.loops[l].extent != 0) continue;
    const LoopId outer = find_outer_loop(plan, parents, LoopId(l));
    if (outer.valid()) plan.loops[l].extent = plan.loops[outer.index()].slice;
  }
  walk_items(plan, [&](const Item& item, int64_t, LoopId around) {
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr) return;
    for (LoopId loop = around; loop.valid(); loop = parents[loop.index()]) {
      if (plan.loops[loop.index()].extent != 0) continue;
      const int axis = graph::find_axis(facts.axes(call->node), find_bound_axis(plan, loop, call));
      if (axis < 0) continue;
      plan.loops[loop.index()].extent = facts.extent(call->node, static_cast<size_t>(axis));
    }
  });
  for (size_t l = 0; l < plan.loops.size(); ++l) {
    if (plan.loops[l].extent != 0) continue;
    throw Error(ErrorKind::kConfig, fmt::format("plan, program {}, loop L{}: expected its extent, "
                                                "or a call inside that has the axis {}.",
                                                plan.name, l, plan.loops[l].axis.name()));
  }
}

}  // namespace plimsoll::plan
