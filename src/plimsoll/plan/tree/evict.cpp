#include "plan/tree/evict.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "graph/rank_message.h"
#include "plan/core/walk.h"
#include "plan/facts/estimate.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;
using graph::ValueKind;

// How far a recomputation may reach back.
constexpr int kDeepest = 64;
// The operand of a use by an output item.
constexpr int kOutput = -2;
// Time that is lost on any change, so that many small ones are not free.
constexpr double kChangeSeconds = 1e-6;
// Less is not worth a change.
constexpr int64_t kLeastBytes = kAlignment.count();

// What a change frees and takes.
struct Offer {
  int64_t freed = 0;
  double seconds = 0;
  std::vector<Cut> cuts;
  std::vector<std::pair<ValueId, int64_t>> kept;  // operands that now live across the peak
  InstanceId instance;                            // that is given up between two uses
  size_t gap = 0;
  int64_t own_bytes = 0;  // of the instance, without what is kept instead
  double worth() const { return static_cast<double>(freed) / (seconds + kChangeSeconds); }

  // What a step that fails takes back.
  struct Mark {
    int64_t freed = 0;
    double seconds = 0;
    size_t cuts = 0;
    size_t kept = 0;
  };
  Mark mark() const { return {freed, seconds, cuts.size(), kept.size()}; }
  void go_back(const Mark& to) {
    freed = to.freed;
    seconds = to.seconds;
    cuts.resize(to.cuts);
    kept.resize(to.kept);
  }
};

class Evictor {
 public:
  Evictor(const Occupied& occupied, const std::vector<Cut>& cuts, ProgramFacts& facts,
          const Dependencies& dependencies, const EvictOptions& options)
      : plan_(occupied.plan),
        buffers_(occupied.buffers),
        facts_(facts),
        graph_(facts.graph()),
        dependencies_(dependencies),
        options_(options),
        known_(cuts),
        parents_(find_parents(plan_)),
        loops_(plan_.loops.size()),
        uses_(plan_.instances.size()),
        given_up_(plan_.instances.size()),
        alive_(graph_.values.size()),
        recomputed_(graph_.values.size()) {
    for (const Cut& cut : known_) note(cut);
    index_items();
    profile_ = find_profile(buffers_);
    profile_.resize(bodies_.size());
  }

  // Until the profile is below its peak by `goal` everywhere, or nothing is left to give up.
  std::vector<Cut> find(Bytes goal) {
    const size_t first = known_.size();
    const auto highest = [this] { return std::ranges::max_element(profile_); };
    if (profile_.empty()) return {};
    const int64_t target = *highest() - goal.count();
    for (auto at = highest(); *at > target; at = highest()) {
      move_to(at - profile_.begin());
      std::vector<Offer> offers;
      for (const Buffer& buffer : buffers_) {
        if (peak_ < buffer.live.begin || peak_ >= buffer.live.end) continue;
        for (InstanceId id : buffer.instances) add_offers(id, offers);
      }
      if (offers.empty()) break;
      accept_best(offers, target);
    }
    return {known_.begin() + static_cast<int64_t>(first), known_.end()};
  }

 private:
  struct Place {
    int64_t number = 0;
    LoopId body;
    const Call* call = nullptr;  // null: a feed, an output item, an encode
    int operand = -1;
  };

  void add_to_profile(Interval window, int64_t bytes) {
    const int64_t end = std::min(window.end, std::ssize(profile_));
    for (int64_t i = std::max<int64_t>(0, window.begin); i < end; ++i) {
      profile_[static_cast<size_t>(i)] += bytes;
    }
  }

  // Looks at another peak.
  void move_to(int64_t peak) {
    peak_ = peak;
    peak_body_ = bodies_[static_cast<size_t>(peak)];
    alive_.assign(alive_.size(), false);
    for (const Buffer& buffer : buffers_) {
      if (peak_ < buffer.live.begin || peak_ >= buffer.live.end) continue;
      for (InstanceId id : buffer.instances) {
        if (lives_at_peak(id) && plan_.instances[id.index()].form.empty()) {
          alive_[plan_.instances[id.index()].value.index()] = true;
        }
      }
    }
    for (const auto& [value, window] : prolonged_) {
      if (peak_ >= window.begin && peak_ < window.end) alive_[value.index()] = true;
    }
  }

  // Offers of most worth until the peak is low enough. What one gives up or counts on, another must
  // not: such offers wait for the next time that this peak is looked at.
  void accept_best(std::vector<Offer>& offers, int64_t target) {
    std::ranges::stable_sort(offers,
                             [](const Offer& a, const Offer& b) { return a.worth() > b.worth(); });
    std::set<ValueId> taken;
    for (const Offer& offer : offers) {
      if (profile_[static_cast<size_t>(peak_)] <= target) return;
      const auto is_taken = [&](const Cut& cut) { return taken.contains(cut.value); };
      if (std::ranges::any_of(offer.cuts, is_taken)) continue;
      for (const Cut& cut : offer.cuts) {
        taken.insert(cut.value);
        if (cut.kind != CutKind::kRecompute) continue;
        for (ValueId input : operands_of(cut.value)) taken.insert(input);
      }
      accept(offer);
    }
  }

  // Notes what an offer gives up, and what it keeps longer.
  void accept(const Offer& offer) {
    known_.insert(known_.end(), offer.cuts.begin(), offer.cuts.end());
    for (const Cut& cut : offer.cuts) note(cut);
    given_up_[offer.instance.index()].insert(offer.gap);
    const std::vector<Place>& uses = uses_[offer.instance.index()];
    const Interval before = window_of(offer.instance, uses[offer.gap]);
    const Interval after = window_of(offer.instance, uses[offer.gap + 1]);
    add_to_profile({std::min(peak_, before.end), std::max(peak_ + 1, after.begin)},
                   -offer.own_bytes);
    for (const auto& [value, bytes] : offer.kept) {
      prolonged_.emplace_back(value, Interval{peak_, after.begin + 1});
      add_to_profile(prolonged_.back().second, bytes);
    }
  }

  void index_items() {
    walk_items(plan_, [&](const Item& item, int64_t number, LoopId around) {
      // Starts and ends of loops are numbers, too: they belong to the body inside.
      const LoopId gap_body = bodies_.empty() ? around : deeper(bodies_.back(), around);
      while (std::ssize(bodies_) < number) bodies_.push_back(gap_body);
      bodies_.push_back(around);
      for (LoopId loop = around; loop.valid(); loop = parents_[loop.index()]) {
        Interval& interval = loops_[loop.index()];
        if (interval.end == 0) interval.begin = number;
        interval.end = number + 1;
      }
      index_item(item, number, around);
    });
  }

  LoopId deeper(LoopId before, LoopId here) const {
    for (LoopId loop = here; loop.valid(); loop = parents_[loop.index()]) {
      if (loop == before) return here;
    }
    return before.valid() ? before : here;
  }

  void index_item(const Item& item, int64_t number, LoopId around) {
    if (const auto* call = std::get_if<Call>(&item)) {
      if (call->clone == 0) anchors_.emplace_back(number, call->node);
      for (size_t i = 0; i < call->inputs.size(); ++i) {
        add_use(call->inputs[i], {number, around, call, static_cast<int>(i)});
      }
      for (InstanceId id : call->outputs) {
        if (id.valid()) add_use(id, {number, around, nullptr, -1});
      }
    } else if (const auto* feed = std::get_if<Feed>(&item)) {
      add_use(feed->target, {number, around, nullptr, -1});
    } else if (const auto* output = std::get_if<Output>(&item)) {
      add_use(output->source, {number, around, nullptr, kOutput});
    } else if (const auto* encode = std::get_if<Encode>(&item)) {
      add_use(encode->source, {number, around, nullptr, -1});
      add_use(encode->target, {number, around, nullptr, -1});
    }
  }

  void add_use(InstanceId id, Place place) { uses_[id.index()].push_back(place); }

  // A use, or the largest loop around it inside the scope of the instance.
  Interval window_of(InstanceId id, const Place& use) const {
    const LoopId scope = plan_.instances[id.index()].scope;
    Interval window{use.number, use.number + 1};
    for (LoopId loop = use.body; loop.valid() && loop != scope; loop = parents_[loop.index()]) {
      window = loops_[loop.index()];
    }
    return window;
  }

  // The numbers of the largest loop around the peak inside the scope of the instance; else the
  // peak.
  Interval busy_window(InstanceId id) const {
    const LoopId scope = plan_.instances[id.index()].scope;
    Interval window{peak_, peak_ + 1};
    for (LoopId loop = peak_body_; loop.valid() && loop != scope; loop = parents_[loop.index()]) {
      window = loops_[loop.index()];
    }
    return window;
  }

  bool lives_at_peak(InstanceId id) const {
    const std::vector<Place>& uses = uses_[id.index()];
    const Interval window = busy_window(id);
    if (uses.empty() || uses.front().number >= window.end || uses.back().number < window.begin) {
      return false;
    }
    return std::ranges::none_of(given_up_[id.index()], [&](size_t gap) {
      return uses[gap].number < window.begin && uses[gap + 1].number >= window.end;
    });
  }

  // A gap between two uses across which the value shall not live: the last use before and the first
  // after it, by their places in uses_.
  std::vector<size_t> find_gaps(InstanceId id) const {
    const std::vector<Place>& uses = uses_[id.index()];
    const Interval window = busy_window(id);
    std::vector<size_t> gaps;
    for (size_t i = 0; i + 1 < uses.size(); ++i) {
      const int64_t a = uses[i].number;
      const int64_t b = uses[i + 1].number;
      // What the item at the peak itself reads or writes is busy; a loop's body may do with less
      // of it than all rows.
      const bool loop = window.size() > 1;
      const bool inside = a >= window.begin && b < window.end;
      const bool outside = b < window.begin || a >= window.end;
      const bool busy = !loop && (a == peak_ || b == peak_);
      const bool gone = given_up_[id.index()].contains(i);
      if (a < b && !inside && !outside && !busy && !gone) gaps.push_back(i);
    }
    return gaps;
  }

  // The call of a node after use `gap` and not after the next one, near the peak where that is
  // between them.
  NodeId find_anchor(InstanceId id, size_t gap) const {
    const int64_t after = uses_[id.index()][gap].number;
    const int64_t to = uses_[id.index()][gap + 1].number;
    const int64_t from = std::clamp(peak_, after + 1, to);
    auto at = std::ranges::lower_bound(anchors_, from, {}, &std::pair<int64_t, NodeId>::first);
    if (at != anchors_.end() && at->first <= to) return at->second;
    if (at == anchors_.begin()) return {};
    --at;
    return at->first > after ? at->second : NodeId();
  }

  int64_t whole_bytes(ValueId value, const std::string& form) const {
    const graph::ValueType& type = graph_.value(value).type;
    return instance_bytes(type, form, type.shape.at(facts_.batch())).count();
  }

  bool is_known(const Cut& cut) const { return tried_.contains({cut.value, cut.anchor, cut.kind}); }
  void note(const Cut& cut) {
    tried_.insert({cut.value, cut.anchor, cut.kind});
    if (cut.kind == CutKind::kRecompute) recomputed_[cut.value.index()] = true;
  }

  void add_offers(InstanceId id, std::vector<Offer>& offers) {
    const Instance& instance = plan_.instances[id.index()];
    if (instance.bytes.count() < kLeastBytes || !instance.form.empty()) return;
    if (graph_.value(instance.value).kind == ValueKind::kState) return;
    for (size_t gap : find_gaps(id)) {
      const NodeId anchor = find_anchor(id, gap);
      if (!anchor.valid()) continue;
      if (options_.forms) offer_form(id, gap, anchor, offers);
      if (options_.move) offer_move(id, gap, anchor, offers);
      offer_copy(id, gap, anchor, offers);
    }
  }

  void offer_form(InstanceId id, size_t gap, NodeId anchor, std::vector<Offer>& offers) {
    const Instance& instance = plan_.instances[id.index()];
    if (!is_carried(facts_, dependencies_, instance.value)) return;
    std::string form;
    for (size_t u = gap + 1; u < uses_[id.index()].size(); ++u) {
      const Place& use = uses_[id.index()][u];
      if (use.call == nullptr) return;
      const std::string here =
          smallest_form(facts_, use.call->node, static_cast<size_t>(use.operand));
      if (here.empty() || (!form.empty() && here != form)) return;
      form = here;
    }
    const int64_t all = std::max<int64_t>(1, whole_bytes(instance.value, ""));
    const int64_t small = whole_bytes(instance.value, form);
    Offer offer;
    offer.instance = id;
    offer.gap = gap;
    offer.freed = instance.bytes.count() -
                  static_cast<int64_t>(static_cast<double>(instance.bytes.count()) *
                                       static_cast<double>(small) / static_cast<double>(all));
    offer.own_bytes = offer.freed;
    offer.seconds = facts_.catalog().copy_seconds(Bytes(all));
    offer.cuts = {{instance.value, anchor, CutKind::kForm, form}};
    if (offer.freed >= kLeastBytes && !is_known(offer.cuts.front())) {
      offers.push_back(std::move(offer));
    }
  }

  // To the spill file and back.
  void offer_move(InstanceId id, size_t gap, NodeId anchor, std::vector<Offer>& offers) {
    const Instance& instance = plan_.instances[id.index()];
    if (graph_.value(instance.value).kind != ValueKind::kNode) return;
    if (graph::is_under_way(graph_, instance.value)) return;
    for (size_t u = gap + 1; u < uses_[id.index()].size(); ++u) {
      const Place& use = uses_[id.index()][u];
      if (use.operand == kOutput) return;  // it stays
      // In the file it has the state variable's place, which is not to change before the write.
      if (use.call != nullptr && graph_.node(use.call->node).writes.valid()) return;
    }
    const bool carried = is_carried(facts_, dependencies_, instance.value);
    if (!carried && uses_[id.index()].front().body.valid()) return;
    const Bytes all(whole_bytes(instance.value, ""));
    Offer offer;
    offer.instance = id;
    offer.gap = gap;
    offer.freed = instance.bytes.count();
    offer.own_bytes = offer.freed;
    using Spill = graph::KernelCatalog::Spill;
    offer.seconds = facts_.catalog().spill_seconds(all, Spill::kWrite) +
                    facts_.catalog().spill_seconds(all, Spill::kRead) +
                    2 * facts_.catalog().spill_work_seconds(all);
    offer.cuts = {{instance.value, anchor, CutKind::kMove, ""}};
    if (!is_known(offer.cuts.front())) offers.push_back(std::move(offer));
  }

  void offer_copy(InstanceId id, size_t gap, NodeId anchor, std::vector<Offer>& offers) {
    const Instance& instance = plan_.instances[id.index()];
    for (size_t u = gap + 1; u < uses_[id.index()].size(); ++u) {
      if (uses_[id.index()][u].operand == kOutput) return;  // it stays
    }
    const Cut cut{instance.value, anchor, CutKind::kRecompute, ""};
    if (is_known(cut)) return;
    const double share = static_cast<double>(instance.bytes.count()) /
                         static_cast<double>(std::max<int64_t>(1, whole_bytes(instance.value, "")));
    std::optional<Offer> best;
    for (bool deep : {false, true}) {
      Offer offer;
      offer.instance = id;
      offer.gap = gap;
      offer.freed = instance.bytes.count();
      offer.own_bytes = offer.freed;
      std::vector<ValueId> seen;
      if (!follow(cut, deep, 0, share, seen, offer)) continue;
      if (offer.freed < kLeastBytes) continue;
      if (!best || offer.worth() > best->worth()) best = std::move(offer);
    }
    if (best) offers.push_back(std::move(*best));
  }

  std::vector<ValueId> operands_of(ValueId value) const {
    const graph::Value& v = graph_.value(value);
    return v.kind == ValueKind::kNode ? graph_.node(v.producer).inputs : std::vector<ValueId>();
  }

  double seconds_of(NodeId node) {
    return find_call_cost(plan_, parents_, LoopId(), {node, 0, {}, {}, {}, {}, {}}, 0, facts_)
        .seconds;
  }

  // Adds what it takes to have the value again after the anchor. False: it cannot be.
  bool follow(const Cut& cut, bool deep, int depth, double share, std::vector<ValueId>& seen,
              Offer& offer) {
    if (std::ranges::find(seen, cut.value) != seen.end()) return true;
    seen.push_back(cut.value);
    if (depth > kDeepest || !dependencies_.repeatable[cut.value.index()]) return false;
    const graph::Value& value = graph_.value(cut.value);
    offer.cuts.push_back(cut);
    if (value.kind == ValueKind::kInput) {
      if (!options_.reread) return false;
      offer.seconds += facts_.catalog().copy_seconds(Bytes(whole_bytes(cut.value, "")));
      return true;
    }
    if (!options_.recompute) return false;
    offer.seconds += seconds_of(value.producer);
    for (ValueId input : graph_.node(value.producer).inputs) {
      if (!follow_operand(input, cut, deep, depth, share, seen, offer)) return false;
    }
    return true;
  }

  bool follow_operand(ValueId input, const Cut& cut, bool deep, int depth, double share,
                      std::vector<ValueId>& seen, Offer& offer) {
    const graph::Value& operand = graph_.value(input);
    if (operand.kind == ValueKind::kState || alive_[input.index()]) return true;
    if (recomputed_[input.index()]) return true;
    const Cut further{input, cut.anchor, CutKind::kRecompute, ""};
    const auto bytes = static_cast<int64_t>(share * static_cast<double>(whole_bytes(input, "")));
    const bool cheap =
        operand.kind == ValueKind::kInput ||
        (operand.kind == ValueKind::kNode && graph_.node(operand.producer).op->traits().cheap);
    if (bytes >= kLeastBytes && (deep || cheap)) {
      const Offer::Mark before = offer.mark();
      const size_t known = seen.size();
      if (follow(further, deep, depth + 1, share, seen, offer)) return true;
      offer.go_back(before);
      seen.resize(known);
    }
    offer.freed -= bytes;
    offer.kept.emplace_back(input, bytes);
    return offer.freed > 0;
  }

  const ProgramPlan& plan_;
  const std::vector<Buffer>& buffers_;
  int64_t peak_ = 0;
  LoopId peak_body_;
  ProgramFacts& facts_;
  const graph::Graph& graph_;
  const Dependencies& dependencies_;
  EvictOptions options_;
  std::vector<Cut> known_;
  std::vector<LoopId> parents_;
  std::vector<Interval> loops_;             // numbers of the items in each loop
  std::vector<std::vector<Place>> uses_;    // per instance, rising; the first makes it
  std::vector<LoopId> bodies_;              // per number
  std::vector<int64_t> profile_;            // per number
  std::vector<std::set<size_t>> given_up_;  // per instance: gaps
  std::vector<std::pair<ValueId, Interval>> prolonged_;
  std::vector<bool> alive_;                          // per value: a plain copy of it at the peak
  std::vector<std::pair<int64_t, NodeId>> anchors_;  // calls of nodes, rising
  std::vector<bool> recomputed_;                     // per value: it has such a cut
  std::set<std::tuple<ValueId, NodeId, CutKind>> tried_;
};

}  // namespace

std::vector<Cut> find_evictions(const Occupied& occupied, const std::vector<Cut>& cuts, Bytes goal,
                                ProgramFacts& facts, const Dependencies& dependencies,
                                const EvictOptions& options) {
  return Evictor(occupied, cuts, facts, dependencies, options).find(goal);
}

}  // namespace plimsoll::plan
