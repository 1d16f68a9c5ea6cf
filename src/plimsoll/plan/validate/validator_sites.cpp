#include <algorithm>
#include <map>

#include "base/format.h"
#include "plan/validate/validator_impl.h"

// The tree laid out: loops entered once, transfers paired, every instance written by one item.

namespace plimsoll::plan::referee {
namespace {

std::string loop_name(LoopId loop) { return fmt::format("L{}", loop.raw()); }

Validation check_instance_ids(const Subject& subject) {
  const ProgramPlan& program = subject.program;
  for (size_t i = 0; i < program.instances.size(); ++i) {
    const Instance& instance = program.instances[i];
    const std::string where = fmt::format("{}instance %{}: ", at(subject), i);
    if (!instance.value.valid() || instance.value.index() >= subject.source.graph.values.size()) {
      return {Verdict::kBadReference, where + "no such value"};
    }
    if (instance.scope.valid() && instance.scope.index() >= program.loops.size()) {
      return {Verdict::kBadReference,
              where + "its scope " + loop_name(instance.scope) + " is not a loop of the program"};
    }
    if (instance.in_place.valid() && !exists(program, instance.in_place)) {
      return {Verdict::kBadReference, where + "it reuses an instance that does not exist"};
    }
  }
  return ok();
}

class TreeWalk {
 public:
  TreeWalk(const Subject& subject, Sites& sites) : subject_(subject), sites_(sites) {
    sites_.bodies.resize(subject.program.loops.size() + 1);
    entered_.resize(subject.program.loops.size(), false);
  }

  Validation run() {
    if (Validation v = walk(subject_.program.items, sites_.bodies.back()); !v.ok()) return v;
    for (size_t i = 0; i < entered_.size(); ++i) {
      if (!entered_[i]) return bad("loop " + loop_name(LoopId(i)) + " is never entered");
    }
    return ok();
  }

 private:
  Validation bad(const std::string& what) const {
    return {Verdict::kBadReference, at(subject_) + what};
  }

  Validation walk(const std::vector<Item>& items, Body& body) {
    body.begin = number_++;
    std::map<int, size_t> open;  // transfers begun in this body, by number
    for (const Item& item : items) {
      const size_t index = sites_.sites.size();
      sites_.sites.push_back({.number = number_++, .item = &item, .around = around_});
      body.sites.push_back(index);
      if (Validation v = make_site(subject_, item, sites_.sites[index]); !v.ok()) return v;
      if (Validation v = pair_transfer(item, index, open); !v.ok()) return v;
      if (const auto* enter = std::get_if<Enter>(&item)) {
        if (Validation v = enter_loop(enter->loop); !v.ok()) return v;
      }
    }
    if (!open.empty()) {
      return {Verdict::kMissingWait,
              fmt::format(
                  "{}expected a wait for transfer {} later in the same loop body, received none",
                  at(subject_, sites_.sites[open.begin()->second]), open.begin()->first)};
    }
    body.end = number_++;
    return ok();
  }

  Validation pair_transfer(const Item& item, size_t index, std::map<int, size_t>& open) {
    const std::string where = at(subject_, sites_.sites[index]);
    if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
      if (!transfers_.emplace(begin->number, sites_.transfers.size()).second) {
        return {Verdict::kBadReference, where + "there are two transfers of this number"};
      }
      open[begin->number] = index;
      sites_.transfers.push_back({begin->number, index, index});
    } else if (const auto* wait = std::get_if<WaitTransfer>(&item)) {
      const auto begun = open.find(wait->number);
      if (begun == open.end()) {
        return {Verdict::kMissingWait,
                where + "expected a begin of this number earlier in the same loop body"};
      }
      sites_.transfers[transfers_.at(wait->number)].wait = index;
      open.erase(begun);
    }
    return ok();
  }

  Validation enter_loop(LoopId id) {
    if (!id.valid() || id.index() >= subject_.program.loops.size()) return bad("no such loop");
    if (entered_[id.index()]) return bad("loop " + loop_name(id) + " is entered twice");
    if (id != LoopId(next_loop_)) {
      return bad("expected loop " + loop_name(LoopId(next_loop_)) +
                 " to be entered next, received " + loop_name(id));
    }
    ++next_loop_;
    entered_[id.index()] = true;
    if (Validation v = check_loop(id); !v.ok()) return v;
    around_.push_back(id);
    Validation v = walk(subject_.program.loops[id.index()].items, sites_.bodies[id.index()]);
    around_.pop_back();
    return v;
  }

  Validation check_loop(LoopId id) const {
    const Loop& loop = subject_.program.loops[id.index()];
    const std::string where = at(subject_) + "loop " + loop_name(id) + ": ";
    if (loop.extent < 1 || loop.slice < 1 || loop.slice > loop.extent) {
      return {Verdict::kBadSlice,
              fmt::format("{}expected a slice from 1 to its extent {}, received {}", where,
                          loop.extent, loop.slice)};
    }
    for (auto outer = around_.rbegin(); outer != around_.rend(); ++outer) {
      const Loop& around = subject_.program.loops[outer->index()];
      if (around.axis != loop.axis) continue;
      if (loop.extent == around.slice) return ok();
      return {Verdict::kBadSlice,
              fmt::format("{}expected the extent of one iteration of {}, {}, received {}", where,
                          loop_name(*outer), around.slice, loop.extent)};
    }
    return ok();
  }

  const Subject& subject_;
  Sites& sites_;
  std::vector<LoopId> around_;
  std::vector<bool> entered_;
  std::map<int, size_t> transfers_;  // by number: their places among all
  int32_t next_loop_ = 0;
  int64_t number_ = 0;
};

Validation find_writers(const Subject& subject, Sites& sites) {
  sites.writer.assign(subject.program.instances.size(), -1);
  std::map<std::pair<graph::NodeId, int>, size_t> calls;
  for (size_t s = 0; s < sites.sites.size(); ++s) {
    const Site& site = sites.sites[s];
    if (const Call* call = site.call()) {
      if (!calls.emplace(std::pair(call->node, call->clone), s).second) {
        return {Verdict::kRepeatedNode,
                at(subject, site) + "there is another call of this node and clone"};
      }
    }
    for (const SiteOperand& operand : site.writes) {
      if (!operand.instance.valid()) continue;
      int64_t& writer = sites.writer[operand.instance.index()];
      if (writer >= 0) {
        return {Verdict::kBadReference, at(subject, site) + name_of(subject, operand.instance) +
                                            " is written by another item already"};
      }
      writer = static_cast<int64_t>(s);
    }
  }
  return ok();
}

Validation check_writers(const Subject& subject, const Sites& sites) {
  for (size_t i = 0; i < sites.writer.size(); ++i) {
    const Instance& instance = subject.program.instances[i];
    const graph::Value& value = subject.source.graph.value(instance.value);
    const bool placed =
        instance.space == Space::kState || find_state_in_file(subject, InstanceId(i)) >= 0;
    const bool incoming = value.kind == graph::ValueKind::kState && placed && instance.form.empty();
    if (incoming == (sites.writer[i] < 0)) continue;
    return {Verdict::kBadReference,
            at(subject) + name_of(subject, InstanceId(i)) +
                (incoming ? " is the incoming value of a state variable and written by an item"
                          : " is written by no item")};
  }
  return ok();
}

// Follows in_place to the first owner of the memory.
Validation find_groups(const Subject& subject, Sites& sites) {
  const std::vector<Instance>& instances = subject.program.instances;
  sites.group.resize(instances.size());
  for (size_t i = 0; i < instances.size(); ++i) {
    InstanceId owner(i);
    for (size_t hops = 0; instances[owner.index()].in_place.valid(); ++hops) {
      if (hops > instances.size()) {
        return {Verdict::kBadInPlace,
                at(subject) + name_of(subject, InstanceId(i)) + " reuses memory in a circle"};
      }
      owner = instances[owner.index()].in_place;
    }
    sites.group[i] = owner;
  }
  return ok();
}

}  // namespace

Validation build_sites(const Subject& subject, Sites& sites) {
  if (Validation v = check_instance_ids(subject); !v.ok()) return v;
  if (Validation v = TreeWalk(subject, sites).run(); !v.ok()) return v;
  if (Validation v = find_writers(subject, sites); !v.ok()) return v;
  if (Validation v = check_writers(subject, sites); !v.ok()) return v;
  if (Validation v = find_groups(subject, sites); !v.ok()) return v;
  for (size_t i = 0; i < subject.program.instances.size(); ++i) {
    const LoopId scope = subject.program.instances[i].scope;
    (scope.valid() ? sites.bodies[scope.index()] : sites.bodies.back())
        .in_scope.push_back(InstanceId(i));
  }
  return ok();
}

}  // namespace plimsoll::plan::referee
