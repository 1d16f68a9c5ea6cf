#include <algorithm>
#include <map>
#include <numeric>

#include "graph/state_rows.h"
#include "plan/core/state_places.h"
#include "plan/core/walk.h"
#include "plan/facts/liveness.h"
#include "plan/tree/complete.h"
#include "plan/tree/spill_placement.h"

// What follows when the tree is final but for transfers: update loops, merged loads, stores.

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;
using graph::ValueKind;

// Updates whose variables have fewer bytes than this are done whole; of one variable in one
// iteration: long enough for the disk, short enough for memory. In the least bytes that are moved
// at all.
constexpr int64_t kLeastLoop = 32;
constexpr int64_t kIteration = 16;
// A copy is kept for its next reader over at most so many calls.
constexpr int64_t kNear = 3;

class StoreMaker {
 public:
  StoreMaker(const ProgramFacts& facts, std::span<const StatePlacement> states, int64_t least,
             std::span<const NodeId> whole, ProgramPlan& plan)
      : facts_(facts),
        whole_(whole),
        graph_(facts.graph()),
        least_(least),
        plan_(plan),
        written_(graph_.values.size(), -1) {
    const std::vector<const StatePlacement*> places = find_places(graph_, states);
    for (size_t s = 0; s < graph_.states.size(); ++s) {
      const graph::StateVariable& state = graph_.states[s];
      spilled_.push_back(places[s] != nullptr && places[s]->space == Space::kSpill);
      if (state.write.valid()) {
        written_[graph_.node(state.write).inputs[0].index()] = static_cast<int>(s);
      }
    }
    files_.resize(graph_.values.size());
    for (size_t i = 0; i < plan_.instances.size(); ++i) {
      const Instance& instance = plan_.instances[i];
      const bool state = graph_.value(instance.value).kind == ValueKind::kState;
      if (instance.space == Space::kSpill && state) files_[instance.value.index()] = InstanceId(i);
    }
  }

  void run() {
    make_update_loops();
    for (size_t body = 0; body <= plan_.loops.size(); ++body) merge_loads(body_at(body));
    drop_unread_loads();
    store_in_body(plan_.items);
    renumber();
  }

 private:
  std::vector<Item>& body_at(size_t index) {
    return index < plan_.loops.size() ? plan_.loops[index].items : plan_.items;
  }

  const Instance& instance(InstanceId id) const { return plan_.instances[id.index()]; }

  InstanceId add_instance(ValueId value, Space space) {
    Instance added;
    added.value = value;
    added.space = space;
    added.scope = space == Space::kSpill ? LoopId() : kAutoScope;
    plan_.instances.push_back(std::move(added));
    return InstanceId(plan_.instances.size() - 1);
  }

  InstanceId file_of(ValueId value) {
    InstanceId& file = files_[value.index()];
    if (!file.valid()) file = add_instance(value, Space::kSpill);
    return file;
  }

  bool is_spilled_state(ValueId value) const {
    const graph::Value& v = graph_.value(value);
    return v.kind == ValueKind::kState && spilled_[v.state.index()];
  }

  // The state_write of the value, and whether it goes to the file.
  NodeId writer_of(ValueId value) const {
    return graph_.states[static_cast<size_t>(written_[value.index()])].write;
  }
  bool is_stored(ValueId value) const {
    return spilled_[static_cast<size_t>(written_[value.index()])];
  }

  // Numbers of transfers are given at the end: until then begins and waits are told by their place.
  void add_transfer(InstanceId source, InstanceId target, std::vector<Item>& begins,
                    std::vector<Item>& waits) {
    begins.emplace_back(BeginTransfer{next_, source, target});
    waits.emplace_back(WaitTransfer{next_--});
  }

  // The axis over the rows of all that the node updates, −1: it cannot be done in pieces, or too
  // little of it lies in the file.
  int find_rows_axis(NodeId id) const {
    const std::vector<graph::Axis>& axes = facts_.axes(id);
    const int axis = graph::find_axis(axes, graph::kStateRowsAxis);
    if (axis < 0) return -1;
    const graph::Node& node = graph_.node(id);
    const graph::Axis& rows = axes[static_cast<size_t>(axis)];
    int64_t bytes = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const graph::Value& value = graph_.value(node.inputs[i]);
      if (!is_spilled_state(node.inputs[i]) || rows.inputs[i].dimension < 0) continue;
      bytes += tensor_bytes(value.type.dtype, value.type.shape, 1).count();
    }
    for (ValueId output : node.outputs) {
      const int state = written_[output.index()];
      const std::vector<NodeId>& users = facts_.users()[output.index()];
      if (state < 0 || users.size() != 1) return -1;
      if (users.front() != graph_.states[static_cast<size_t>(state)].write) return -1;
      if (std::ranges::find(graph_.outputs, output) != graph_.outputs.end()) return -1;
    }
    if (bytes < kLeastLoop * least_ || node.outputs.empty()) return -1;
    return facts_.catalog().row_exact(graph_, id, axis) ? axis : -1;
  }

  // Rows whose bytes fill iterations and, where that can be, whole pages of the file.
  int64_t find_slice(const graph::ValueType& type, int64_t rows) const {
    const int64_t row =
        tensor_bytes(type.dtype, type.shape, 1).count() / std::max<int64_t>(1, rows);
    if (row == 0) return rows;
    const int64_t step = kSpillAlignment.count() / std::gcd(row, kSpillAlignment.count());
    const int64_t slice = std::max<int64_t>(1, kIteration * least_ / row);
    return std::min(rows, slice >= step ? slice / step * step : slice);
  }

  void make_update_loops() {
    std::vector<bool> moved(graph_.nodes.size());
    std::map<size_t, Enter> put_off;  // by the place of the write that they stand in for
    std::vector<Item> items;
    for (size_t i = 0; i < plan_.items.size(); ++i) {
      Item& item = plan_.items[i];
      auto* call = std::get_if<Call>(&item);
      if (call != nullptr && moved[call->node.index()]) {
        if (const auto loop = put_off.find(i); loop != put_off.end())
          items.emplace_back(loop->second);
        continue;
      }
      const bool whole = call == nullptr || call->clone != 0 ||
                         std::ranges::find(whole_, call->node) != whole_.end();
      const int axis = whole ? -1 : find_rows_axis(call->node);
      if (axis < 0) {
        items.push_back(std::move(item));
        continue;
      }
      for (ValueId output : graph_.node(call->node).outputs) {
        if (is_stored(output)) moved[writer_of(output).index()] = true;
      }
      const size_t place = find_loop_place(i);
      const Enter enter{add_update_loop(std::move(*call), axis)};
      if (place == i) {
        items.emplace_back(enter);
      } else {
        put_off.emplace(place, enter);
      }
    }
    plan_.items = std::move(items);
  }

  // Where a loop may stand in for the update there and its writes: where the update is, unless
  // something reads what one of them overwrites until then; then in place of the last write.
  size_t find_loop_place(size_t update) const {
    const auto& call = std::get<Call>(plan_.items[update]);
    std::vector<ValueId> overwritten;
    std::vector<NodeId> writes;
    for (ValueId output : graph_.node(call.node).outputs) {
      if (!is_stored(output)) continue;
      overwritten.push_back(graph_.states[static_cast<size_t>(written_[output.index()])].incoming);
      writes.push_back(writer_of(output));
    }
    size_t last = update;
    bool read = false;
    bool read_before_last = false;
    for (size_t i = update + 1; i < plan_.items.size(); ++i) {
      const auto* write = std::get_if<Call>(&plan_.items[i]);
      if (write != nullptr && std::ranges::find(writes, write->node) != writes.end()) {
        last = i;
        read_before_last = read;
      }
      read = read || reads_any(plan_.items[i], overwritten);
    }
    return read_before_last ? last : update;
  }

  bool reads_any(const Item& item, std::span<const ValueId> values) const {
    if (const auto* enter = std::get_if<Enter>(&item)) {
      return std::ranges::any_of(plan_.loops[enter->loop.index()].items,
                                 [&](const Item& inside) { return reads_any(inside, values); });
    }
    const auto is_one = [&](InstanceId id) {
      return std::ranges::find(values, instance(id).value) != values.end();
    };
    if (const auto* output = std::get_if<Output>(&item)) return is_one(output->source);
    const auto* call = std::get_if<Call>(&item);
    return call != nullptr && std::ranges::any_of(call->inputs, is_one);
  }

  LoopId add_update_loop(Call call, int axis) {
    const graph::Node& node = graph_.node(call.node);
    const graph::Axis& rows = facts_.axes(call.node)[static_cast<size_t>(axis)];
    Loop loop{rows.name, rows.extent.count, 0, {}};
    loop.slice = find_slice(graph_.value(node.outputs.front()).type, loop.extent);
    std::vector<Item> waits;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (rows.inputs[i].dimension < 0 || !is_spilled_state(node.inputs[i])) continue;
      call.inputs[i] = add_instance(node.inputs[i], Space::kArena);
      add_transfer(file_of(node.inputs[i]), call.inputs[i], loop.items, waits);
    }
    loop.items.insert(loop.items.end(), waits.begin(), waits.end());
    waits.clear();
    const std::vector<InstanceId> outputs = call.outputs;
    loop.items.emplace_back(std::move(call));
    std::vector<Item> begins;
    for (size_t o = 0; o < outputs.size(); ++o) {
      // What stays in memory is written when all of it is there.
      if (!is_stored(node.outputs[o])) continue;
      Call write;
      write.node = writer_of(node.outputs[o]);
      write.inputs = {outputs[o]};
      loop.items.emplace_back(std::move(write));
      add_transfer(outputs[o], file_of(node.outputs[o]), begins, waits);
    }
    loop.items.insert(loop.items.end(), begins.begin(), begins.end());
    loop.items.insert(loop.items.end(), waits.begin(), waits.end());
    plan_.loops.push_back(std::move(loop));
    return LoopId(plan_.loops.size() - 1);
  }

  // The copy of a spilled variable that the item begins to load; invalid: none.
  InstanceId loaded_by(const Item& item) const {
    const auto* begin = std::get_if<BeginTransfer>(&item);
    if (begin == nullptr || !is_spilled_state(instance(begin->source).value)) return {};
    return instance(begin->source).space == Space::kSpill ? begin->target : InstanceId();
  }

  // A load soon after the last use of another copy in the same body is left out.
  void merge_loads(std::vector<Item>& items) {
    std::map<ValueId, std::pair<InstanceId, int64_t>> last;  // copy, calls up to its last use
    std::map<InstanceId, InstanceId> merged;
    int64_t calls = 0;
    for (Item& item : items) {
      if (auto* call = std::get_if<Call>(&item)) {
        ++calls;
        for (InstanceId& id : call->inputs) {
          if (const auto other = merged.find(id); other != merged.end()) id = other->second;
          const auto found = last.find(instance(id).value);
          if (found != last.end() && found->second.first == id) found->second.second = calls;
        }
        continue;
      }
      const InstanceId copy = loaded_by(item);
      if (!copy.valid()) continue;
      const auto found = last.find(instance(copy).value);
      if (found != last.end() && calls - found->second.second <= kNear &&
          is_read_here(copy, items)) {
        merged[copy] = found->second.first;
      } else {
        last[instance(copy).value] = {copy, calls};
      }
    }
  }

  // Whether all readers stand in this body itself.
  bool is_read_here(InstanceId copy, const std::vector<Item>& items) const {
    const auto count = [&](const std::vector<Item>& body) {
      int64_t reads = 0;
      for (const Item& item : body) {
        if (const auto* call = std::get_if<Call>(&item)) {
          reads += std::ranges::count(call->inputs, copy);
        } else if (const auto* output = std::get_if<Output>(&item)) {
          reads += output->source == copy ? 1000000 : 0;
        }
      }
      return reads;
    };
    int64_t all = count(plan_.items);
    for (const Loop& loop : plan_.loops) all += count(loop.items);
    return all == count(items) && all < 1000000;
  }

  void drop_unread_loads() {
    std::vector<bool> read(plan_.instances.size());
    walk_items(plan_, [&](const Item& item, int64_t, LoopId) {
      if (const auto* call = std::get_if<Call>(&item)) {
        for (InstanceId id : call->inputs) read[id.index()] = true;
      } else if (const auto* output = std::get_if<Output>(&item)) {
        read[output->source.index()] = true;
      } else if (const auto* encode = std::get_if<Encode>(&item)) {
        read[encode->source.index()] = true;
      } else if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
        read[begin->source.index()] = true;
      }
    });
    for (size_t body = 0; body <= plan_.loops.size(); ++body) {
      std::vector<int> dropped;
      std::erase_if(body_at(body), [&](const Item& item) {
        if (const auto* wait = std::get_if<WaitTransfer>(&item)) {
          return std::ranges::find(dropped, wait->number) != dropped.end();
        }
        const InstanceId copy = loaded_by(item);
        if (!copy.valid() || read[copy.index()]) return false;
        dropped.push_back(std::get<BeginTransfer>(item).number);
        return true;
      });
    }
  }

  // After each state_write of a variable in the file that stands in this body.
  void store_in_body(std::vector<Item>& items) {
    std::vector<Item> result;
    for (Item& item : items) {
      const auto* call = std::get_if<Call>(&item);
      const graph::StateId state =
          call == nullptr ? graph::StateId() : graph_.node(call->node).writes;
      const InstanceId source = state.valid() ? call->inputs[0] : InstanceId();
      result.push_back(std::move(item));
      if (!state.valid() || !spilled_[state.index()]) continue;
      std::vector<Item> waits;
      add_transfer(source, file_of(instance(source).value), result, waits);
      result.push_back(waits.front());
    }
    items = std::move(result);
  }

  // Loops by the order in which they are entered, transfers likewise, and no instance that no item
  // names.
  void renumber() {
    std::vector<Loop> loops;
    renumber_loops(plan_.items, loops);
    plan_.loops = std::move(loops);
    std::vector<bool> named(plan_.instances.size());
    int transfers = 0;
    std::map<int, int> numbers;
    walk_items(plan_, [&](Item& item, int64_t, LoopId) {
      for_each_instance(item, [&](InstanceId& id) { named[id.index()] = true; });
      if (auto* begin = std::get_if<BeginTransfer>(&item)) {
        numbers[begin->number] = transfers;
        begin->number = transfers++;
      } else if (auto* wait = std::get_if<WaitTransfer>(&item)) {
        wait->number = numbers.at(wait->number);
      }
    });
    std::vector<InstanceId> renamed(plan_.instances.size());
    std::vector<Instance> instances;
    for (size_t i = 0; i < named.size(); ++i) {
      if (!named[i]) continue;
      renamed[i] = InstanceId(instances.size());
      instances.push_back(std::move(plan_.instances[i]));
    }
    plan_.instances = std::move(instances);
    walk_items(plan_, [&](Item& item, int64_t, LoopId) {
      for_each_instance(item, [&](InstanceId& id) { id = renamed[id.index()]; });
    });
  }

  void renumber_loops(std::vector<Item>& items, std::vector<Loop>& loops) {
    for (Item& item : items) {
      auto* enter = std::get_if<Enter>(&item);
      if (enter == nullptr) continue;
      const size_t index = loops.size();
      loops.push_back(std::move(plan_.loops[enter->loop.index()]));
      enter->loop = LoopId(index);
      std::vector<Item> inside = std::move(loops[index].items);
      renumber_loops(inside, loops);
      loops[index].items = std::move(inside);
    }
  }

  template <typename Visit>
  static void for_each_instance(Item& item, const Visit& visit) {
    if (auto* call = std::get_if<Call>(&item)) {
      for (InstanceId& id : call->inputs) visit(id);
      for (InstanceId& id : call->outputs) {
        if (id.valid()) visit(id);
      }
    } else if (auto* encode = std::get_if<Encode>(&item)) {
      visit(encode->source);
      visit(encode->target);
    } else if (auto* feed = std::get_if<Feed>(&item)) {
      visit(feed->target);
    } else if (auto* output = std::get_if<Output>(&item)) {
      visit(output->source);
    } else if (auto* begin = std::get_if<BeginTransfer>(&item)) {
      visit(begin->source);
      visit(begin->target);
    }
  }

  const ProgramFacts& facts_;
  std::span<const NodeId> whole_;
  const graph::Graph& graph_;
  int64_t least_;
  ProgramPlan& plan_;
  std::vector<bool> spilled_;      // per state variable
  std::vector<int> written_;       // per value: the state variable that it is written to
  std::vector<InstanceId> files_;  // per value: what stands for the variable in the file
  int next_ = -2;                  // TreeEditor's own marks have -1
};

}  // namespace

void store_states(const ProgramFacts& facts, std::span<const StatePlacement> states, Bytes least,
                  std::span<const NodeId> whole, ProgramPlan& plan) {
  StoreMaker(facts, states, least.count(), whole, plan).run();
}

std::vector<NodeId> find_whole_updates(const ProgramPlan& plan, Bytes room) {
  const std::vector<Buffer> buffers = find_buffers(plan);
  std::vector<int64_t> profile = find_profile(buffers);
  if (profile.empty()) return {};
  const int64_t load = std::max(*std::ranges::max_element(profile), room.count());
  std::vector<int64_t> inside(plan.loops.size());  // bytes that live there
  for (const Buffer& buffer : buffers) {
    if (buffer.instances.empty()) continue;
    const LoopId scope = plan.instances[buffer.instances.front().index()].scope;
    if (scope.valid()) inside[scope.index()] += round_up(buffer.bytes, kAlignment).count();
  }
  std::vector<NodeId> whole;
  const std::vector<Interval> numbers = number_root_items(plan);
  profile.resize(static_cast<size_t>(numbers.back().end));
  for (size_t i = 0; i < plan.items.size(); ++i) {
    const auto* enter = std::get_if<Enter>(&plan.items[i]);
    if (enter == nullptr || !plan.loops[enter->loop.index()].axis.of_states()) continue;
    const Loop& loop = plan.loops[enter->loop.index()];
    const int64_t iterations = iteration_count(loop, {0, loop.extent}, 0);
    const auto begin = profile.begin() + numbers[i].begin;
    const int64_t others =
        *std::max_element(begin, profile.begin() + numbers[i].end) - inside[enter->loop.index()];
    if (others + 2 * iterations * inside[enter->loop.index()] > load) continue;
    for (const Item& item : loop.items) {
      const auto* call = std::get_if<Call>(&item);
      if (call == nullptr) continue;
      whole.push_back(call->node);  // writes of state follow their update
      break;
    }
  }
  return whole;
}

}  // namespace plimsoll::plan
