#include "plan/tree/moves.h"

#include <algorithm>
#include <map>

#include "plan/facts/estimate.h"
#include "plan/facts/liveness.h"

namespace plimsoll::plan {
namespace {

// So much of the time of the transfers in a span its calls have to take before it is long enough.
constexpr double kEnough = 1.2;

// The items of one body, by their place in it; an item's loop counts as part of it.
struct Body {
  std::vector<Item>* items = nullptr;
  std::vector<int64_t> numbers;  // of each item, and the one after the last
  std::vector<double> calls;     // seconds
  std::vector<double> transfers;
  std::map<InstanceId, std::vector<int64_t>>
      files;                             // where what lies in the file is stored, loaded
  std::map<InstanceId, int64_t> reuses;  // of an instance's memory: the first
  std::map<int, int64_t> waits;          // of stores: after which item
};

class Mover {
 public:
  Mover(ProgramFacts& facts, ProgramPlan& plan, Bytes room)
      : plan_(plan), seconds_(estimate_items(plan, facts)), buffers_(find_buffers(plan)) {
    profile_ = find_profile(buffers_);
    const std::vector<Interval> numbers = number_root_items(plan);
    profile_.resize(static_cast<size_t>(numbers.back().end));
    load_ = std::max(*std::ranges::max_element(profile_), room.count());
    bytes_.resize(plan.instances.size());
    for (const Buffer& buffer : buffers_) {
      for (InstanceId id : buffer.instances) {
        bytes_[id.index()] = round_up(buffer.bytes, kAlignment).count();
      }
    }
  }

  void run() { visit(plan_.items, LoopId(), 0); }

 private:
  // Returns the number after the body.
  int64_t visit(std::vector<Item>& items, LoopId loop, int64_t number) {
    Body body;
    body.items = &items;
    bool any = false;
    for (size_t i = 0; i < items.size(); ++i) {
      body.numbers.push_back(number);
      if (const auto* enter = std::get_if<Enter>(&items[i])) {
        number = visit(plan_.loops[enter->loop.index()].items, enter->loop, number + 1) + 1;
      } else {
        any |= std::holds_alternative<BeginTransfer>(items[i]);
        ++number;
      }
    }
    body.numbers.push_back(number);
    const bool updates = loop.valid() && plan_.loops[loop.index()].axis.of_states();
    if (any && !updates) draw_apart_in(body, loop);
    return number;
  }

  void draw_apart_in(Body& body, LoopId loop) {
    describe(body);
    const auto size = static_cast<int64_t>(body.items->size());
    std::map<int, int64_t> begins;
    std::map<int64_t, std::vector<int64_t>> in_front;  // of an item: those that move there
    std::map<int64_t, std::vector<int64_t>> after;
    int64_t first = 0;  // no load begins in front of an earlier one
    for (int64_t i = 0; i < size; ++i) {
      const Item& item = (*body.items)[static_cast<size_t>(i)];
      if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
        begins[begin->number] = i;
        if (!is_load(*begin)) continue;
        first = std::max(first, find_earliest(body, loop, *begin, i, first));
        if (first < i) {
          in_front[first].push_back(i);
        } else {
          first = i + 1;  // what moves in front of an item that stays comes before it
        }
      } else if (const auto* wait = std::get_if<WaitTransfer>(&item)) {
        const auto& begun =
            std::get<BeginTransfer>((*body.items)[static_cast<size_t>(begins.at(wait->number))]);
        if (is_load(begun)) continue;
        const int64_t last = find_latest(body, loop, begun, begins.at(wait->number), i);
        body.waits[wait->number] = last;
        if (last > i) after[last].push_back(i);
      }
    }
    rebuild(*body.items, in_front, after);
  }

  bool is_load(const BeginTransfer& begin) const {
    return plan_.instances[begin.source.index()].space == Space::kSpill;
  }

  void describe(Body& body) const {
    const size_t size = body.items->size();
    body.calls.resize(size);
    body.transfers.resize(size);
    for (size_t i = 0; i < size; ++i)
      describe_item((*body.items)[i], static_cast<int64_t>(i), body.numbers[i], body);
  }

  // Returns the number after the item.
  int64_t describe_item(const Item& item, int64_t place, int64_t number, Body& body) const {
    if (const auto* enter = std::get_if<Enter>(&item)) {
      ++number;
      for (const Item& inside : plan_.loops[enter->loop.index()].items) {
        number = describe_item(inside, place, number, body);
      }
      return number + 1;
    }
    const auto at = static_cast<size_t>(place);
    const double seconds = seconds_[static_cast<size_t>(number)];
    if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
      body.transfers[at] += seconds;
      body.files[is_load(*begin) ? begin->source : begin->target].push_back(place);
    } else if (!std::holds_alternative<WaitTransfer>(item)) {
      body.calls[at] += seconds;  // what calls lose to transfers gives these no time
    }
    if (const auto* call = std::get_if<Call>(&item)) {
      for (InstanceId id : call->outputs) {
        if (!id.valid()) continue;
        const InstanceId from = plan_.instances[id.index()].in_place;
        if (from.valid()) body.reuses.emplace(from, place);
      }
    }
    return number + 1;
  }

  // Whether the instance may live while the item runs too.
  bool has_room(const Body& body, LoopId loop, InstanceId id, int64_t place) const {
    if (plan_.instances[id.index()].scope != loop) return true;  // it does already
    const auto at = static_cast<size_t>(place);
    for (int64_t n = body.numbers[at]; n < body.numbers[at + 1]; ++n) {
      if (profile_[static_cast<size_t>(n)] + bytes_[id.index()] > load_) return false;
    }
    return true;
  }

  void take_room(const Body& body, LoopId loop, InstanceId id, int64_t from, int64_t to) {
    if (plan_.instances[id.index()].scope != loop) return;
    for (int64_t n = body.numbers[static_cast<size_t>(from)];
         n < body.numbers[static_cast<size_t>(to)]; ++n) {
      profile_[static_cast<size_t>(n)] += bytes_[id.index()];
    }
  }

  int64_t find_earliest(const Body& body, LoopId loop, const BeginTransfer& begin, int64_t place,
                        int64_t first) {
    for (int64_t named : body.files.at(begin.source)) {
      if (named >= place) break;
      const auto* other = std::get_if<BeginTransfer>(&(*body.items)[static_cast<size_t>(named)]);
      if (other == nullptr) {
        first = std::max(first, named + 1);  // in a loop inside
      } else if (!is_load(*other)) {
        first = std::max(first, body.waits.at(other->number) + 1);
      }
    }
    double calls = 0;
    double transfers = body.transfers[static_cast<size_t>(place)];
    int64_t earliest = place;
    while (earliest > first && calls < kEnough * transfers &&
           has_room(body, loop, begin.target, earliest - 1)) {
      --earliest;
      calls += body.calls[static_cast<size_t>(earliest)];
      transfers += body.transfers[static_cast<size_t>(earliest)];
    }
    take_room(body, loop, begin.target, earliest, place);
    return earliest;
  }

  // The last place after which the wait may stand.
  int64_t find_latest(const Body& body, LoopId loop, const BeginTransfer& begin, int64_t begun,
                      int64_t place) {
    int64_t end = static_cast<int64_t>(body.items->size());
    for (int64_t named : body.files.at(begin.target)) {
      if (named > place) end = std::min(end, named);
    }
    if (const auto taken = body.reuses.find(begin.source); taken != body.reuses.end()) {
      end = std::min(end, std::max(taken->second, place + 1));
    }
    double calls = 0;
    double transfers = body.transfers[static_cast<size_t>(begun)];
    int64_t latest = place;
    while (latest + 1 < end && calls < kEnough * transfers &&
           has_room(body, loop, begin.source, latest + 1)) {
      ++latest;
      calls += body.calls[static_cast<size_t>(latest)];
      transfers += body.transfers[static_cast<size_t>(latest)];
    }
    take_room(body, loop, begin.source, place + 1, latest + 1);
    return latest;
  }

  static void rebuild(std::vector<Item>& items,
                      const std::map<int64_t, std::vector<int64_t>>& in_front,
                      const std::map<int64_t, std::vector<int64_t>>& after) {
    std::vector<bool> moved(items.size());
    for (const auto* moves : {&in_front, &after}) {
      for (const auto& [to, places] : *moves) {
        for (int64_t place : places) moved[static_cast<size_t>(place)] = true;
      }
    }
    std::vector<Item> result;
    result.reserve(items.size());
    const auto add = [&](const std::map<int64_t, std::vector<int64_t>>& moves, int64_t at) {
      const auto found = moves.find(at);
      if (found == moves.end()) return;
      for (int64_t place : found->second) {
        result.push_back(std::move(items[static_cast<size_t>(place)]));
      }
    };
    for (size_t i = 0; i < items.size(); ++i) {
      add(in_front, static_cast<int64_t>(i));
      if (!moved[i]) result.push_back(std::move(items[i]));
      add(after, static_cast<int64_t>(i));
    }
    items = std::move(result);
  }

  ProgramPlan& plan_;
  std::vector<double> seconds_;  // by number
  std::vector<Buffer> buffers_;
  std::vector<int64_t> profile_;
  int64_t load_ = 0;
  std::vector<int64_t> bytes_;  // per instance: of the buffer that it lies in
};

}  // namespace

void draw_apart(ProgramFacts& facts, ProgramPlan& plan, Bytes room) {
  const auto moves = [](const std::vector<Item>& items) {
    return std::ranges::any_of(
        items, [](const Item& item) { return std::holds_alternative<BeginTransfer>(item); });
  };
  bool any = moves(plan.items);
  for (const Loop& loop : plan.loops) any = any || moves(loop.items);
  if (any) Mover(facts, plan, room).run();
}

}  // namespace plimsoll::plan
