#include "plan/tree/restore.h"

#include <algorithm>
#include <map>
#include <set>

#include "plan/core/walk.h"
#include "plan/facts/estimate.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;

// How far what one clone saves is followed back.
constexpr int kDeepest = 200;

// A plain copy of a value: where it is made, and its readers.
struct Copy {
  InstanceId instance;
  int64_t made = -1;
  int64_t first = -1;
  int64_t last = -1;
  int readers = 0;
  const Call* clone = nullptr;  // that makes it; null: no clone does
  double seconds = 0;           // of the clone
};

class Restorer {
 public:
  Restorer(const Occupied& occupied, const std::vector<Cut>& cuts, ProgramFacts& facts)
      : plan_(occupied.plan),
        graph_(facts.graph()),
        facts_(facts),
        cuts_(cuts),
        profile_(find_profile(occupied.buffers)),
        place_(graph_.nodes.size(), -1),
        copies_(plan_.instances.size()) {
    index_items();
    index_roots();
    for (const Copy& copy : copies_) {
      if (copy.made >= 0) chains_[value_of(copy)].push_back(copy);
    }
    for (auto& [value, chain] : chains_) std::ranges::sort(chain, {}, &Copy::made);
    for (size_t c = 0; c < cuts_.size(); ++c) {
      if (cuts_[c].kind == CutKind::kRecompute) cuts_of_[cuts_[c].value].push_back(c);
    }
  }

  std::vector<Cut> run(Bytes most) {
    std::set<size_t> gone;
    for (const Offer& offer : find_offers()) {
      std::vector<Copy>& chain = chains_[offer.value];
      const auto at = std::ranges::find(chain, offer.instance, &Copy::instance);
      if (at == chain.begin() || at == chain.end()) continue;
      const auto before = std::prev(at);
      const Span span = find_span(*before, *at);
      if (!has_room(span, most.count())) continue;
      for (int64_t i = span.window.begin; i < span.window.end; ++i) {
        profile_[static_cast<size_t>(i)] += span.bytes;
      }
      before->last = std::max(before->last, at->last);
      drop_cuts(offer.value, anchor_of(offer.value, *before), anchor_of(offer.value, *at), gone);
      chain.erase(at);
    }
    std::vector<Cut> left;
    for (size_t c = 0; c < cuts_.size(); ++c) {
      if (!gone.contains(c)) left.push_back(cuts_[c]);
    }
    return left;
  }

 private:
  struct Offer {
    ValueId value;
    InstanceId instance;
    double worth = 0;  // seconds for a byte
  };
  // Bytes more over some items.
  struct Span {
    Interval window;
    int64_t bytes = 0;
  };

  ValueId value_of(const Copy& copy) const { return plan_.instances[copy.instance.index()].value; }

  void index_items() {
    const std::vector<double> seconds = estimate_items(plan_, facts_);
    walk_items(plan_, [&](const Item& item, int64_t number, LoopId) {
      if (const auto* call = std::get_if<Call>(&item)) {
        for (InstanceId id : call->inputs) note_reader(id, number);
        for (InstanceId id : call->outputs) {
          note_maker(id, number);
          if (call->clone == 0 || !id.valid()) continue;
          copies_[id.index()].clone = call;
          copies_[id.index()].seconds = seconds[static_cast<size_t>(number)];
        }
        if (call->clone > 0) return;
        place_[call->node.index()] = number;
        originals_.push_back(number);
      } else if (const auto* feed = std::get_if<Feed>(&item)) {
        note_maker(feed->target, number);
      } else if (const auto* encode = std::get_if<Encode>(&item)) {
        note_reader(encode->source, number);
      } else if (const auto* output = std::get_if<Output>(&item)) {
        note_reader(output->source, number);
      } else if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
        note_reader(begin->source, number);
        note_maker(begin->target, number);
      }
    });
  }

  void note_reader(InstanceId id, int64_t number) {
    if (!id.valid()) return;
    Copy& copy = copies_[id.index()];
    if (copy.first < 0) copy.first = number;
    copy.last = number;
    ++copy.readers;
  }

  void note_maker(InstanceId id, int64_t number) {
    if (!id.valid()) return;
    const Instance& instance = plan_.instances[id.index()];
    if (instance.space != Space::kArena || !instance.form.empty()) return;
    Copy& copy = copies_[id.index()];
    copy.instance = id;
    copy.made = number;
    copy.last = std::max(copy.last, number);
  }

  // The seconds of the clone that makes the copy, and of those that are made for it alone.
  double saved_seconds(const Copy& copy, int depth = 0) const {
    double seconds = copy.seconds;
    if (depth == kDeepest) return seconds;
    for (InstanceId id : copy.clone->inputs) {
      const Copy& operand = copies_[id.index()];
      if (operand.clone != nullptr && operand.readers == 1) {
        seconds += saved_seconds(operand, depth + 1);
      }
    }
    return seconds;
  }

  void index_roots() {
    roots_.resize(profile_.size());
    for (const Interval& root : number_root_items(plan_)) {
      for (int64_t i = root.begin; i < std::min(root.end, std::ssize(roots_)); ++i) {
        roots_[static_cast<size_t>(i)] = root;
      }
    }
  }

  // What the second copy's readers take of the first one, which lives on until then.
  Span find_span(const Copy& kept, const Copy& gone) const {
    const Interval& from = roots_[static_cast<size_t>(kept.made)];
    const Interval& until = roots_[static_cast<size_t>(gone.last)];
    if (from == until) {
      return {{kept.last, gone.first}, plan_.instances[kept.instance.index()].bytes.count()};
    }
    const graph::ValueType& type = graph_.value(value_of(kept)).type;
    const bool whole = roots_[static_cast<size_t>(kept.last)] != from;
    return {{whole ? kept.last : from.begin, std::min(until.end, std::ssize(profile_))},
            instance_bytes(type, "", type.shape.at(facts_.batch())).count()};
  }

  bool has_room(const Span& span, int64_t most) const {
    for (int64_t i = span.window.begin; i < span.window.end; ++i) {
      if (profile_[static_cast<size_t>(i)] + span.bytes > most) return false;
    }
    return true;
  }

  std::vector<Offer> find_offers() const {
    std::vector<Offer> offers;
    for (const auto& [value, chain] : chains_) {
      for (size_t i = 1; i < chain.size(); ++i) {
        if (chain[i].clone == nullptr || anchor_of(value, chain[i]) < 0) continue;
        const auto bytes = static_cast<double>(find_span(chain[i - 1], chain[i]).bytes);
        offers.push_back(
            {value, chain[i].instance, saved_seconds(chain[i]) / std::max(1.0, bytes)});
      }
    }
    std::ranges::stable_sort(offers, std::ranges::greater(), &Offer::worth);
    return offers;
  }

  // The place of the anchor that the copy is made for: the last one of a cut that does not come
  // after the first node, other than clones, from its first reader on. −1: no cut makes it.
  int64_t anchor_of(ValueId value, const Copy& copy) const {
    const auto cuts = cuts_of_.find(value);
    if (copy.clone == nullptr || copy.first < 0 || cuts == cuts_of_.end()) return -1;
    const auto next = std::ranges::lower_bound(originals_, copy.first);
    if (next == originals_.end()) return -1;
    int64_t anchor = -1;
    for (size_t c : cuts->second) {
      const int64_t place = place_[cuts_[c].anchor.index()];
      if (place <= *next) anchor = std::max(anchor, place);
    }
    return anchor;
  }

  // Those of the value with anchors after `after` up to `last`: one that made no copy would take
  // the place of one that did.
  void drop_cuts(ValueId value, int64_t after, int64_t last, std::set<size_t>& gone) const {
    for (size_t c : cuts_of_.at(value)) {
      const int64_t place = place_[cuts_[c].anchor.index()];
      if (place > after && place <= last) gone.insert(c);
    }
  }

  const ProgramPlan& plan_;
  const graph::Graph& graph_;
  ProgramFacts& facts_;
  const std::vector<Cut>& cuts_;
  std::vector<int64_t> profile_;
  std::vector<Interval> roots_;     // per number: the item of the root that it belongs to
  std::vector<int64_t> place_;      // per node: the number of its own call
  std::vector<int64_t> originals_;  // the numbers of such calls, rising
  std::vector<Copy> copies_;        // per instance
  std::map<ValueId, std::vector<Copy>> chains_;
  std::map<ValueId, std::vector<size_t>> cuts_of_;
};

}  // namespace

std::vector<Cut> take_back(const Occupied& occupied, const std::vector<Cut>& cuts, Bytes most,
                           ProgramFacts& facts) {
  return Restorer(occupied, cuts, facts).run(most);
}

}  // namespace plimsoll::plan
