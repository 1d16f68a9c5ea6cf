#include "plan/facts/traffic.h"

#include <algorithm>
#include <map>

#include "plan/core/walk.h"
#include "plan/facts/estimate.h"

namespace plimsoll::plan {
namespace {

// One run through the items of a body, or of the root, in bytes that were touched so far.
struct Level {
  LoopId loop;
  double clock = 0;
  struct Touch {
    double at = 0;
    bool written = false;  // since it last came from memory
  };
  std::map<InstanceId, Touch> touched{};
};

class Walker {
 public:
  Walker(const ProgramPlan& plan, Bytes arena, const ProgramFacts& facts)
      : plan_(plan),
        facts_(facts),
        arena_(static_cast<double>(arena.count())),
        parents_(find_parents(plan)),
        cached_(static_cast<double>(facts.catalog().cached().count())),
        seconds_per_byte_(facts.catalog().memory_seconds(1_MiB) / (1 << 20)) {}

  std::vector<double> run() {
    levels_.push_back({LoopId()});
    walk(plan_.items);
    return std::move(seconds_);
  }

 private:
  void walk(const std::vector<Item>& items) {
    for (const Item& item : items) {
      const size_t number = seconds_.size();
      seconds_.push_back(0);
      if (const auto* enter = std::get_if<Enter>(&item)) {
        levels_.push_back({enter->loop});
        walk(plan_.loops[enter->loop.index()].items);
        seconds_.push_back(0);
        leave();
      } else {
        seconds_[number] = seconds_per_byte_ * visit(item);
      }
    }
  }

  // Bytes that go between memory and the caches for an item, over all iterations.
  double visit(const Item& item) {
    double bytes = 0;
    if (const auto* call = std::get_if<Call>(&item)) {
      if (moves_nothing(plan_, *call, facts_.graph())) return 0;
      for (const InstanceId id : call->inputs) bytes += touch(id, false);
      for (const InstanceId id : call->outputs) bytes += touch(id, true);
    } else if (const auto* encode = std::get_if<Encode>(&item)) {
      bytes += touch(encode->source, false) + touch(encode->target, true);
    } else if (const auto* feed = std::get_if<Feed>(&item)) {
      bytes += touch(feed->target, true);
    } else if (const auto* output = std::get_if<Output>(&item)) {
      bytes += touch(output->source, false);
    }
    return bytes;
  }

  double touch(InstanceId id, bool write) {
    if (!id.valid()) return 0;
    const Instance& instance = plan_.instances[id.index()];
    if (instance.space == Space::kSpill) return 0;
    const InstanceId memory = memory_of(id);
    const bool far = distance(memory, instance) > cached_;
    double moved = 0;
    if (far) {
      const bool dirty = written(memory);
      moved = whole_bytes(instance) * (write || dirty ? 2 : 1);
    }
    Level& here = levels_.back();
    Level::Touch& last = here.touched[memory];
    last = {here.clock, write || (last.written && !far)};
    here.clock += bytes_in(instance, levels_.size() - 1);
    return moved;
  }

  // What is written into a dead value's memory finds that in the caches.
  InstanceId memory_of(InstanceId id) const {
    while (plan_.instances[id.index()].in_place.valid()) id = plan_.instances[id.index()].in_place;
    return id;
  }

  // Bytes that were touched since the value was. In the same iteration, or else in the one before
  // where a loop does not cut it, or else before the loop.
  double distance(InstanceId id, const Instance& instance) const {
    for (size_t l = levels_.size(); l-- > 0;) {
      const Level& level = levels_[l];
      const auto found = level.touched.find(id);
      if (found != level.touched.end()) return level.clock - found->second.at;
      const bool own = level.loop == instance.scope;
      if (own || !cuts(level.loop, instance)) return around(level.loop);
    }
    return around(LoopId());
  }

  // A buffer that is written anew in every iteration, or what every iteration reads: an iteration
  // ago. The memory of a value of the root was another's before.
  double around(LoopId loop) const {
    if (!loop.valid()) return arena_;
    const auto [known, is_new] = footprints_.try_emplace(loop, 0);
    if (is_new) known->second = find_footprint(loop);
    return known->second;
  }

  double find_footprint(LoopId loop) const {
    std::map<InstanceId, double> held;
    add_footprint(loop, loop, held);
    double bytes = 0;
    for (const auto& [id, each] : held) bytes += each;
    return bytes;
  }

  void add_footprint(LoopId loop, LoopId body, std::map<InstanceId, double>& held) const {
    const auto add = [&](InstanceId id) {
      if (!id.valid() || plan_.instances[id.index()].space == Space::kSpill) return;
      held[memory_of(id)] = bytes_within(plan_.instances[id.index()], loop);
    };
    for (const Item& item : plan_.loops[body.index()].items) {
      if (const auto* enter = std::get_if<Enter>(&item)) {
        add_footprint(loop, enter->loop, held);
      } else if (const auto* call = std::get_if<Call>(&item)) {
        std::ranges::for_each(call->inputs, add);
        std::ranges::for_each(call->outputs, add);
      }
    }
  }

  bool written(InstanceId id) const {
    for (size_t l = levels_.size(); l-- > 0;) {
      const auto found = levels_[l].touched.find(id);
      if (found != levels_[l].touched.end()) return found->second.written;
    }
    return false;
  }

  void leave() {
    const Level inner = std::move(levels_.back());
    levels_.pop_back();
    Level& outer = levels_.back();
    double bytes = 0;
    for (const auto& [id, touch] : inner.touched) {
      const Instance& instance = plan_.instances[id.index()];
      bytes += bytes_in(instance, levels_.size() - 1);
      if (instance.scope == inner.loop) continue;
      Level::Touch& last = outer.touched[id];
      last = {outer.clock, touch.written};
    }
    outer.clock += bytes;
  }

  int64_t iterations(LoopId loop) const {
    const Loop& table = plan_.loops[loop.index()];
    return std::max<int64_t>(iteration_count(table, {0, table.extent}, lane_of(plan_, table)), 1);
  }

  // Whether iterations of the loop have rows of their own of it.
  bool cuts(LoopId loop, const Instance& instance) const {
    if (!loop.valid()) return false;
    const graph::ValueType& type = facts_.graph().value(instance.value).type;
    return plan_.loops[loop.index()].axis.of_states() || type.shape.has_batch();
  }

  // What one iteration of the loop (invalid: the root) touches of it.
  double bytes_within(const Instance& instance, LoopId loop) const {
    auto bytes = static_cast<double>(instance.bytes.count());
    for (; loop.valid() && loop != instance.scope; loop = parents_[loop.index()]) {
      if (cuts(loop, instance)) bytes /= static_cast<double>(iterations(loop));
    }
    return bytes;
  }
  double bytes_in(const Instance& instance, size_t level) const {
    return bytes_within(instance, levels_[level].loop);
  }

  // Over all iterations of all loops around the item.
  double whole_bytes(const Instance& instance) const {
    auto bytes = static_cast<double>(instance.bytes.count());
    bool inside = true;
    for (LoopId loop = levels_.back().loop; loop.valid(); loop = parents_[loop.index()]) {
      inside = inside && loop != instance.scope;
      if (!inside || !cuts(loop, instance)) bytes *= static_cast<double>(iterations(loop));
    }
    return bytes;
  }

  const ProgramPlan& plan_;
  const ProgramFacts& facts_;
  double arena_;
  std::vector<LoopId> parents_;
  double cached_;
  double seconds_per_byte_;
  std::vector<Level> levels_;
  std::vector<double> seconds_;
  mutable std::map<LoopId, double> footprints_;
};

}  // namespace

std::vector<double> estimate_traffic(const ProgramPlan& plan, Bytes arena,
                                     const ProgramFacts& facts) {
  if (facts.catalog().cached() == Bytes()) return {};
  return Walker(plan, arena, facts).run();
}

void wait_for_memory(const ProgramPlan& plan, Bytes arena, const ProgramFacts& facts,
                     std::vector<double>& seconds) {
  const std::vector<double> traffic = estimate_traffic(plan, arena, facts);
  if (traffic.empty()) return;
  walk_items(plan, [&](const Item& item, int64_t number, LoopId) {
    const auto i = static_cast<size_t>(number);
    const auto* call = std::get_if<Call>(&item);
    const bool adds = call != nullptr && facts.graph().node(call->node).op->traits().work.family ==
                                             graph::OpFamily::kConvolution;
    seconds[i] = adds ? seconds[i] + traffic[i] : std::max(seconds[i], traffic[i]);
  });
}

}  // namespace plimsoll::plan
