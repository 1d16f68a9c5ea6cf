#include "plan/facts/liveness.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace plimsoll::plan {
namespace {

// Walks the tree in order and numbers it.
class Walker {
 public:
  explicit Walker(const ProgramPlan& program)
      : program_(program), live_(program.instances.size(), {kNever, 0}) {}

  void walk() { walk_body(program_.items); }

  // Per instance; begin == kNever: no item names it.
  const std::vector<Interval>& live() const { return live_; }
  const std::vector<Interval>& root_items() const { return root_items_; }
  const std::vector<std::pair<int64_t, const Call*>>& calls() const { return calls_; }

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

 private:
  struct Use {
    InstanceId instance;
    Interval numbers;
  };

  void walk_body(const std::vector<Item>& items) {
    const bool root = open_.empty();
    std::map<int, const BeginTransfer*> begun;
    for (const Item& item : items) {
      const int64_t number = next_++;
      if (const auto* enter = std::get_if<Enter>(&item)) {
        walk_loop(enter->loop, number);
      } else {
        visit(item, number, begun);
      }
      if (root) root_items_.push_back({number, next_});
    }
  }

  // Uses inside count, for instances whose scope is outside, as uses by the whole loop.
  void walk_loop(LoopId loop, int64_t start) {
    open_.push_back(loop);
    const size_t first_use = uses_.size();
    walk_body(program_.loops[loop.index()].items);
    open_.pop_back();
    const Interval all = {start, ++next_};
    const std::vector<Use> inside(uses_.begin() + static_cast<int64_t>(first_use), uses_.end());
    uses_.resize(first_use);
    for (const Use& use : inside) add({use.instance, all});
  }

  void visit(const Item& item, int64_t number, std::map<int, const BeginTransfer*>& begun) {
    const Interval here = {number, number + 1};
    if (const auto* call = std::get_if<Call>(&item)) {
      calls_.emplace_back(number, call);
      for (InstanceId id : call->inputs) add({id, here});
      for (InstanceId id : call->outputs) {
        if (id.valid()) add({id, here});
      }
    } else if (const auto* encode = std::get_if<Encode>(&item)) {
      add({encode->source, here});
      add({encode->target, here});
    } else if (const auto* feed = std::get_if<Feed>(&item)) {
      add({feed->target, here});
    } else if (const auto* output = std::get_if<Output>(&item)) {
      add({output->source, here});
    } else if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
      begun[begin->number] = begin;
      add({begin->source, here});
      add({begin->target, here});
    } else if (const auto* wait = std::get_if<WaitTransfer>(&item)) {
      const auto found = begun.find(wait->number);
      if (found == begun.end()) return;
      add({found->second->source, here});
      add({found->second->target, here});
    }
  }

  // Widens the instance's interval; a use below its scope is also remembered for the loops around.
  void add(Use use) {
    const size_t index = use.instance.index();
    const LoopId scope = program_.instances[index].scope;
    const LoopId here = open_.empty() ? LoopId() : open_.back();
    const bool in_scope = here == scope || (!here.valid() && !scope.valid());
    if (in_scope || !here.valid()) {
      live_[index].begin = std::min(live_[index].begin, use.numbers.begin);
      live_[index].end = std::max(live_[index].end, use.numbers.end);
    } else {
      uses_.push_back(use);
    }
  }

  const ProgramPlan& program_;
  std::vector<Interval> live_;
  std::vector<Interval> root_items_;
  std::vector<std::pair<int64_t, const Call*>> calls_;
  std::vector<LoopId> open_;
  std::vector<Use> uses_;  // by loops that are open, of instances that live outside
  int64_t next_ = 0;
};

// The instance whose memory this one has, through any number of in-place reuses.
InstanceId find_owner(const ProgramPlan& program, InstanceId id) {
  for (size_t steps = 0; steps < program.instances.size(); ++steps) {
    const InstanceId from = program.instances[id.index()].in_place;
    if (!from.valid()) break;
    id = from;
  }
  return id;
}

}  // namespace

std::vector<Interval> find_lives(const ProgramPlan& program) {
  Walker walker(program);
  walker.walk();
  std::vector<Interval> lives = walker.live();
  for (Interval& live : lives) {
    if (live.begin == Walker::kNever) live = {};
  }
  return lives;
}

std::vector<Buffer> find_buffers(const ProgramPlan& program, Space space) {
  Walker walker(program);
  walker.walk();
  std::vector<Buffer> owners(program.instances.size());
  for (size_t i = 0; i < owners.size(); ++i) owners[i].live = {Walker::kNever, 0};
  for (size_t i = 0; i < program.instances.size(); ++i) {
    const Interval live = walker.live()[i];
    const Instance& instance = program.instances[i];
    if (live.begin == Walker::kNever || instance.space != space) continue;
    Buffer& buffer = owners[find_owner(program, InstanceId(i)).index()];
    buffer.live.begin = std::min(buffer.live.begin, live.begin);
    buffer.live.end = std::max(buffer.live.end, live.end);
    buffer.bytes = max(buffer.bytes, instance.bytes);
    buffer.instances.push_back(InstanceId(i));
  }
  std::erase_if(owners, [](const Buffer& buffer) { return buffer.instances.empty(); });
  if (space == Space::kArena) {
    for (const auto& [number, call] : walker.calls()) {
      if (call->scratch_bytes == Bytes()) continue;
      owners.push_back({{number, number + 1}, call->scratch_bytes, {}, number});
    }
  }
  std::ranges::stable_sort(owners, {}, [](const Buffer& buffer) {
    return std::tuple(!buffer.instances.empty() ? 0 : 1, buffer.live.begin);
  });
  return owners;
}

std::vector<Interval> number_root_items(const ProgramPlan& program) {
  Walker walker(program);
  walker.walk();
  return walker.root_items();
}

std::vector<int64_t> find_profile(std::span<const Buffer> buffers) {
  int64_t end = 0;
  for (const Buffer& buffer : buffers) end = std::max(end, buffer.live.end);
  std::vector<int64_t> profile(static_cast<size_t>(end) + 1);
  for (const Buffer& buffer : buffers) {
    if (buffer.live.begin >= buffer.live.end) continue;
    const int64_t bytes = round_up(buffer.bytes, kAlignment).count();
    profile[static_cast<size_t>(std::max<int64_t>(0, buffer.live.begin))] += bytes;
    profile[static_cast<size_t>(buffer.live.end)] -= bytes;
  }
  std::partial_sum(profile.begin(), profile.end(), profile.begin());
  profile.pop_back();
  return profile;
}

Bytes find_load(const std::vector<Buffer>& buffers, Interval window, int64_t* when) {
  const std::vector<int64_t> profile = find_profile(buffers);
  int64_t most = 0;
  const int64_t end = std::min(window.end, std::ssize(profile));
  for (int64_t i = std::max<int64_t>(0, window.begin); i < end; ++i) {
    if (profile[static_cast<size_t>(i)] <= most) continue;
    most = profile[static_cast<size_t>(i)];
    if (when != nullptr) *when = i;
  }
  return Bytes(most);
}

Bytes find_arena_load(const Plan& plan) {
  Bytes most;
  for (const ProgramPlan& program : plan.programs) {
    const Interval all{0, std::numeric_limits<int64_t>::max()};
    most = max(most, find_load(find_buffers(program), all));
  }
  return plan.state_bytes + most;
}

}  // namespace plimsoll::plan
