#include "plan/search/refine.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "plan/search/schedules.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;

// So many trials for each cut of the universe may make nothing better, in a row.
constexpr int64_t kPatience = 10;
// The longest stretch of values or anchors that is cut anew at once.
constexpr size_t kLongestStretch = 4;

// Per cut of the universe.
using Chosen = std::vector<bool>;

class Refiner {
 public:
  Refiner(std::span<const Cut> universe, const ScoreCuts& score, int64_t trials)
      : universe_(universe), score_(score), trials_(trials) {}

  // Its score; nullopt: it has been tried, or nothing is tried any more.
  std::optional<CutChoice> try_choice(const Chosen& chosen) {
    if (spent() || !seen_.insert(chosen).second) return std::nullopt;
    --trials_;
    ++failed_;
    CutChoice choice;
    for (size_t c = 0; c < chosen.size(); ++c) {
      if (chosen[c]) choice.cuts.push_back(universe_[c]);
    }
    score_(choice);
    keep({choice, chosen});
    return choice;
  }

  void run() {
    // Choices that are known end the search too, where all there are have been tried.
    for (int64_t rounds = trials_; rounds > 0 && !spent(); --rounds) {
      const auto open = std::ranges::find(frontier_, false, &Kept::changed);
      if (open == frontier_.end()) {
        cut_anew(frontier_[draw(frontier_.size())]);
      } else {
        open->changed = true;
        change_each(leave_out(*open));
      }
    }
  }

  std::vector<CutChoice> take() {
    std::vector<CutChoice> result;
    for (Kept& kept : frontier_) result.push_back(std::move(kept.choice));
    return result;
  }

 private:
  struct Kept {
    CutChoice choice;
    Chosen chosen;
    bool changed = false;  // each of its cuts has been, alone
  };

  bool spent() const { return trials_ <= 0 || failed_ > kPatience * std::ssize(universe_); }
  size_t draw(size_t below) { return random_() % below; }

  // Without the cut, if that is no worse: the score then.
  std::optional<CutChoice> try_without(Chosen& chosen, size_t cut, Bytes load, double seconds) {
    chosen[cut] = false;
    std::optional<CutChoice> without = try_choice(chosen);
    if (without && without->load <= load && without->seconds <= seconds) return without;
    chosen[cut] = true;
    return std::nullopt;
  }

  // Without the cuts that change nothing: they stand in the way of changes that would.
  Chosen leave_out(Kept from) {
    for (size_t c = 0; c < from.chosen.size(); ++c) {
      if (!from.chosen[c]) continue;
      const auto without = try_without(from.chosen, c, from.choice.load, from.choice.seconds);
      if (without) from.choice = *without;
    }
    return std::move(from.chosen);
  }

  void change_each(Chosen chosen) {
    for (size_t c = 0; c < chosen.size() && !spent(); ++c) {
      chosen[c] = !chosen[c];
      try_choice(chosen);
      chosen[c] = !chosen[c];
    }
  }

  // Within the bytes of `from`, or what its cuts and the new ones take.
  void cut_anew(const Kept from) {
    const bool by_value = draw(2) == 0;
    const auto place = [&](const Cut& cut) {
      return by_value ? cut.value.index() : cut.anchor.index();
    };
    const size_t first = place(universe_[draw(universe_.size())]);
    const size_t end = first + 1 + draw(kLongestStretch);
    Chosen chosen = from.chosen;
    std::vector<size_t> cuts;
    for (size_t c = 0; c < chosen.size(); ++c) {
      const size_t here = place(universe_[c]);
      if (here >= first && here < end) chosen[c] = true;
      if (chosen[c]) cuts.push_back(c);
    }
    for (size_t i = cuts.size(); i > 1; --i) std::swap(cuts[i - 1], cuts[draw(i)]);
    std::optional<CutChoice> best = try_choice(chosen);
    if (!best) return;
    const Bytes load = max(from.choice.load, best->load);
    for (size_t c : cuts) {
      if (auto without = try_without(chosen, c, load, best->seconds)) best = std::move(without);
    }
  }

  // Keeps it unless something known is as good; what it is better than goes.
  void keep(Kept kept) {
    const CutChoice& choice = kept.choice;
    const auto at = std::ranges::partition_point(
        frontier_, [&](const Kept& other) { return other.choice.load <= choice.load; });
    if (at != frontier_.begin() && std::prev(at)->choice.seconds <= choice.seconds) return;
    auto first = at;
    if (first != frontier_.begin() && std::prev(first)->choice.load == choice.load) --first;
    auto worse = at;
    while (worse != frontier_.end() && worse->choice.seconds >= choice.seconds) ++worse;
    frontier_.insert(frontier_.erase(first, worse), std::move(kept));
    failed_ = 0;
  }

  std::span<const Cut> universe_;
  const ScoreCuts& score_;
  int64_t trials_;
  int64_t failed_ = 0;          // in a row
  std::vector<Kept> frontier_;  // by rising load, seconds strictly falling
  std::set<Chosen> seen_;
  std::mt19937 random_;
};

// The nodes after the first reader of the value that read it or something made from it.
std::vector<NodeId> find_anchors(const ProgramFacts& facts, const Dependencies& dependencies,
                                 ValueId value) {
  const graph::Graph& graph = facts.graph();
  std::vector<bool> reached(graph.values.size());
  reached[value.index()] = true;
  std::vector<NodeId> anchors;
  bool first = true;
  for (NodeId id : dependencies.order) {
    const graph::Node& node = graph.node(id);
    if (!std::ranges::any_of(node.inputs, [&](ValueId v) { return reached[v.index()]; })) continue;
    for (ValueId output : node.outputs) reached[output.index()] = true;
    if (!first) anchors.push_back(id);
    first = false;
  }
  return anchors;
}

}  // namespace

std::vector<Cut> find_universe(const ProgramPlan& tree, Bytes least, const ProgramFacts& facts,
                               const Dependencies& dependencies) {
  std::vector<bool> large(facts.graph().values.size());
  for (const Instance& instance : tree.instances) {
    if (instance.bytes >= least) large[instance.value.index()] = true;
  }
  const auto is_large = [&](ValueId value) { return large[value.index()]; };
  std::vector<Cut> universe;
  for (const Cut& cut : find_all_cuts(facts, dependencies)) {
    if (is_large(cut.value)) universe.push_back(cut);
  }
  for (NodeId maker : dependencies.order) {
    for (ValueId value : facts.graph().node(maker).outputs) {
      if (!dependencies.repeatable[value.index()] || !is_large(value)) continue;
      for (NodeId anchor : find_anchors(facts, dependencies, value)) {
        const Cut cut{value, anchor, CutKind::kRecompute, ""};
        if (std::ranges::find(universe, cut) == universe.end()) universe.push_back(cut);
      }
    }
  }
  return universe;
}

std::vector<CutChoice> refine_cuts(std::span<const std::vector<Cut>> known,
                                   std::span<const Cut> universe, const ScoreCuts& score,
                                   int64_t trials) {
  Refiner refiner(universe, score, trials);
  refiner.try_choice(Chosen(universe.size(), false));
  refiner.try_choice(Chosen(universe.size(), true));
  for (const std::vector<Cut>& cuts : known) {
    Chosen chosen;
    for (const Cut& cut : universe) {
      chosen.push_back(std::ranges::find(cuts, cut) != cuts.end());
    }
    refiner.try_choice(chosen);
  }
  refiner.run();
  return refiner.take();
}

}  // namespace plimsoll::plan
