#include "plan/evict.h"

#include <algorithm>
#include <map>
#include <optional>

#include "plan/walk.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;
using graph::ValueKind;

// How far a recomputation may reach back.
constexpr int kDeepest = 64;
// Time that is lost on any change, so that many small ones are not free.
constexpr double kChangeSeconds = 1e-6;
// Less is not worth a change.
constexpr int64_t kLeastBytes = kAlignment.count();

// What a change frees and takes.
struct Offer {
  int64_t freed = 0;
  double seconds = 0;
  std::vector<Cut> cuts;
  std::vector<ValueId> kept;  // operands that now live across the peak
  double worth() const { return static_cast<double>(freed) / (seconds + kChangeSeconds); }
};

class Evictor {
 public:
  Evictor(const Occupied& occupied, const std::vector<Cut>& cuts, ProgramFacts& facts,
          const Dependencies& dependencies, const EvictOptions& options)
      : plan_(occupied.plan),
        buffers_(occupied.buffers),
        peak_(occupied.peak),
        facts_(facts),
        graph_(facts.graph()),
        dependencies_(dependencies),
        options_(options),
        known_(cuts),
        parents_(find_parents(plan_)),
        loops_(plan_.loops.size()),
        uses_(plan_.instances.size()),
        alive_(graph_.values.size()) {
    index_items();
    for (const Buffer& buffer : buffers_) {
      if (peak_ < buffer.live.begin || peak_ >= buffer.live.end) continue;
      for (InstanceId id : buffer.instances) {
        if (lives_at_peak(id) && plan_.instances[id.index()].form.empty()) {
          alive_[plan_.instances[id.index()].value.index()] = true;
        }
      }
    }
  }

  std::vector<Cut> find(Bytes goal) {
    std::vector<Offer> offers;
    for (const Buffer& buffer : buffers_) {
      if (peak_ < buffer.live.begin || peak_ >= buffer.live.end) continue;
      for (InstanceId id : buffer.instances) add_offers(id, offers);
    }
    std::ranges::stable_sort(offers,
                             [](const Offer& a, const Offer& b) { return a.worth() > b.worth(); });
    std::vector<Cut> result;
    std::set<ValueId> done;
    int64_t freed = 0;
    for (const Offer& offer : offers) {
      if (freed >= goal.count()) break;
      // What another change gave up, or counts on, is not what was offered.
      const bool stale =
          std::ranges::any_of(offer.cuts, [&](const Cut& cut) { return done.contains(cut.value); });
      if (stale) continue;
      for (const Cut& cut : offer.cuts) done.insert(cut.value);
      for (ValueId kept : offer.kept) done.insert(kept);
      for (const Cut& cut : offer.cuts) {
        if (cut.kind != CutKind::kRecompute) continue;
        for (ValueId input : operands_of(cut.value)) done.insert(input);
      }
      freed += offer.freed;
      result.insert(result.end(), offer.cuts.begin(), offer.cuts.end());
    }
    return result;
  }

 private:
  struct Place {
    int64_t number = 0;
    LoopId body;
    const Call* call = nullptr;  // null: a feed, a drain, an encode
    int operand = -1;
  };

  void index_items() {
    bool found = false;
    walk_items(plan_, [&](const Item& item, int64_t number, LoopId around) {
      for (LoopId loop = around; loop.valid(); loop = parents_[loop.index()]) {
        Interval& interval = loops_[loop.index()];
        if (interval.end == 0) interval.begin = number;
        interval.end = number + 1;
      }
      if (const auto* call = std::get_if<Call>(&item)) {
        if (call->clone == 0) {
          anchors_.emplace_back(number, call->node);
        }
        for (size_t i = 0; i < call->inputs.size(); ++i) {
          add_use(call->inputs[i], {number, around, call, static_cast<int>(i)});
        }
        for (InstanceId id : call->outputs) {
          if (id.valid()) add_use(id, {number, around, nullptr, -1});
        }
      } else if (const auto* feed = std::get_if<Feed>(&item)) {
        add_use(feed->target, {number, around, nullptr, -1});
      } else if (const auto* drain = std::get_if<Drain>(&item)) {
        add_use(drain->source, {number, around, nullptr, -2});
      } else if (const auto* encode = std::get_if<Encode>(&item)) {
        add_use(encode->source, {number, around, nullptr, -1});
        add_use(encode->target, {number, around, nullptr, -1});
      }
      // The peak may be a loop's start, which is no item of its own.
      if (number >= peak_ && !found) peak_body_ = around;
      found = found || number >= peak_;
    });
  }

  void add_use(InstanceId id, Place place) { uses_[id.index()].push_back(place); }

  // The numbers of the largest loop around the peak inside the home of the instance; else the peak.
  Interval busy_window(InstanceId id) const {
    const LoopId home = plan_.instances[id.index()].home;
    Interval window{peak_, peak_ + 1};
    for (LoopId loop = peak_body_; loop.valid() && loop != home; loop = parents_[loop.index()]) {
      window = loops_[loop.index()];
    }
    return window;
  }

  bool lives_at_peak(InstanceId id) const {
    const std::vector<Place>& uses = uses_[id.index()];
    const Interval window = busy_window(id);
    return !uses.empty() && uses.front().number < window.end && uses.back().number >= window.begin;
  }

  // A gap between two uses across which the value shall not live: the last use before and the first
  // behind it, by their places in uses_.
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
      if (a < b && !inside && !outside && !busy) gaps.push_back(i);
    }
    return gaps;
  }

  // The call of a node behind use `gap` and not behind the next one, near the peak where that is
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

  bool is_known(const Cut& cut) const { return std::ranges::find(known_, cut) != known_.end(); }

  bool is_recomputed(ValueId value) const {
    return std::ranges::any_of(known_, [&](const Cut& cut) {
      return cut.value == value && cut.kind == CutKind::kRecompute;
    });
  }

  void add_offers(InstanceId id, std::vector<Offer>& offers) {
    const Instance& instance = plan_.instances[id.index()];
    if (instance.bytes.count() < kLeastBytes || !instance.form.empty()) return;
    if (graph_.value(instance.value).kind == ValueKind::kState) return;
    for (size_t gap : find_gaps(id)) {
      const NodeId anchor = find_anchor(id, gap);
      if (!anchor.valid()) continue;
      if (options_.forms) offer_form(id, gap, anchor, offers);
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
          smallest_form(graph_, use.call->node, static_cast<size_t>(use.operand));
      if (here.empty() || (!form.empty() && here != form)) return;
      form = here;
    }
    const int64_t all = std::max<int64_t>(1, whole_bytes(instance.value, ""));
    const int64_t small = whole_bytes(instance.value, form);
    Offer offer;
    offer.freed = instance.bytes.count() -
                  static_cast<int64_t>(static_cast<double>(instance.bytes.count()) *
                                       static_cast<double>(small) / static_cast<double>(all));
    offer.seconds = facts_.catalog().copy_seconds(Bytes(all));
    offer.cuts = {{instance.value, anchor, CutKind::kForm, form}};
    if (offer.freed >= kLeastBytes && !is_known(offer.cuts.front())) {
      offers.push_back(std::move(offer));
    }
  }

  void offer_copy(InstanceId id, size_t gap, NodeId anchor, std::vector<Offer>& offers) {
    const Instance& instance = plan_.instances[id.index()];
    for (size_t u = gap + 1; u < uses_[id.index()].size(); ++u) {
      if (uses_[id.index()][u].operand == -2) return;  // handed out later: it stays
    }
    const Cut cut{instance.value, anchor, CutKind::kRecompute, ""};
    if (is_known(cut)) return;
    const double share = static_cast<double>(instance.bytes.count()) /
                         static_cast<double>(std::max<int64_t>(1, whole_bytes(instance.value, "")));
    std::optional<Offer> best;
    for (bool deep : {false, true}) {
      Offer offer;
      offer.freed = instance.bytes.count();
      std::set<ValueId> seen;
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
    const auto found = seconds_.find(node);
    if (found != seconds_.end()) return found->second;
    std::vector<BlockLengths> lengths;
    for (size_t a = 0; a < facts_.axes(node).size(); ++a) {
      lengths.push_back(find_block_lengths(plan_, parents_, LoopId(), facts_.extent(node, a),
                                           facts_.block(node)[a]));
    }
    return seconds_.emplace(node, facts_.seconds(node, lengths)).first->second;
  }

  // Adds what it takes to have the value again behind the anchor. False: it cannot be.
  bool follow(const Cut& cut, bool deep, int depth, double share, std::set<ValueId>& seen,
              Offer& offer) {
    if (!seen.insert(cut.value).second) return true;
    if (depth > kDeepest || !can_recompute(cut.value, facts_, dependencies_)) return false;
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
                      std::set<ValueId>& seen, Offer& offer) {
    const graph::Value& operand = graph_.value(input);
    if (operand.kind == ValueKind::kState || alive_[input.index()]) return true;
    if (is_recomputed(input)) return true;
    const Cut further{input, cut.anchor, CutKind::kRecompute, ""};
    const auto bytes = static_cast<int64_t>(share * static_cast<double>(whole_bytes(input, "")));
    const bool cheap =
        operand.kind == ValueKind::kInput ||
        (operand.kind == ValueKind::kNode && graph_.node(operand.producer).op->traits().cheap);
    if (bytes >= kLeastBytes && (deep || cheap)) {
      Offer longer = offer;
      std::set<ValueId> also = seen;
      if (follow(further, deep, depth + 1, share, also, longer)) {
        offer = std::move(longer);
        seen = std::move(also);
        return true;
      }
    }
    offer.freed -= bytes;
    offer.kept.push_back(input);
    return offer.freed > 0;
  }

  const ProgramPlan& plan_;
  const std::vector<Buffer>& buffers_;
  int64_t peak_;
  LoopId peak_body_;
  ProgramFacts& facts_;
  const graph::Graph& graph_;
  const Dependencies& dependencies_;
  EvictOptions options_;
  const std::vector<Cut>& known_;
  std::vector<LoopId> parents_;
  std::vector<Interval> loops_;                      // numbers of the items in each loop
  std::vector<std::vector<Place>> uses_;             // per instance, rising; the first makes it
  std::vector<bool> alive_;                          // per value: a plain copy of it at the peak
  std::vector<std::pair<int64_t, NodeId>> anchors_;  // calls of nodes, rising
  std::map<NodeId, double> seconds_;
};

}  // namespace

std::vector<Cut> find_evictions(const Occupied& occupied, const std::vector<Cut>& cuts, Bytes goal,
                                ProgramFacts& facts, const Dependencies& dependencies,
                                const EvictOptions& options) {
  return Evictor(occupied, cuts, facts, dependencies, options).find(goal);
}

}  // namespace plimsoll::plan
