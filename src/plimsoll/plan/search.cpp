#include "plan/search.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "plan/evict.h"
#include "plan/in_place.h"
#include "plan/phases.h"
#include "plan/placement.h"
#include "plan/recipes.h"
#include "plan/tree.h"
#include "plan/walk.h"

namespace plimsoll::plan {
namespace {

// The free plan is the smallest of those that take at most this much of the fastest one's time.
constexpr double kFreeSlack = 1.02;
// Candidates that are placed; their loads differ by at least kRung.
constexpr size_t kMostPlaced = 10;
constexpr double kRung = 1.01;
// From so many candidates on values are given up one after the other.
constexpr size_t kMostBases = 4;
// So many changes may fail to make a plan smaller before the next base is taken.
constexpr int kPatience = 4;
// A change gives up at least this share of what is alive.
constexpr int64_t kShare = 100;

constexpr Interval kAlways{0, std::numeric_limits<int64_t>::max()};

struct Recipe {
  Shapes shapes;
  OrderRule rule = OrderRule::kGraph;
  bool reread = false;
  std::vector<Cut> cuts;
  friend bool operator==(const Recipe&, const Recipe&) = default;
};

struct Score {
  Recipe recipe;
  Bytes load;
  double seconds = 0;
  std::vector<Bytes> phase_loads;
};

class Search {
 public:
  Search(ProgramFacts& facts, std::span<const StatePlacement> states, const PlanOptions& options)
      : facts_(facts),
        states_(states),
        options_(options),
        dependencies_(find_dependencies(facts)),
        slots_(find_slots(facts, dependencies_)),
        steps_(options.max_steps) {
    phase_of_.assign(facts.graph().nodes.size(), -1);
    for (size_t s = 1; s < slots_.size(); s += 2) {
      for (graph::NodeId node : slots_[s]) phase_of_[node.index()] = static_cast<int>(s / 2);
    }
  }

  std::vector<Candidate> run() {
    score_all();
    if (options_.saved_forms || options_.recompute) evict_all();
    return place_all();
  }

 private:
  ProgramPlan build(const Recipe& recipe) {
    const Schedule schedule =
        make_schedule(facts_, dependencies_, slots_, recipe.shapes, recipe.rule);
    ProgramPlan plan = build_tree(schedule, facts_, {.reread = recipe.reread});
    apply_cuts(recipe.cuts, facts_, dependencies_, plan);
    complete_sizes(plan, facts_);
    if (options_.in_place) take_over_in_place(facts_, dependencies_, plan);
    return plan;
  }

  // Scores a recipe unless it is known or the effort is spent. Returns its score's place.
  size_t score(const Recipe& recipe) {
    for (size_t i = 0; i < scores_.size(); ++i) {
      if (scores_[i].recipe == recipe) return i;
    }
    if (steps_ <= 0 && !scores_.empty()) return 0;
    steps_ -= static_cast<int64_t>(facts_.graph().nodes.size());
    const ProgramPlan plan = build(recipe);
    const std::vector<Buffer> buffers = find_buffers(plan);
    Score score{recipe, {}, estimate_seconds(plan, facts_), find_phase_loads(plan, buffers)};
    score.load = find_load(buffers, kAlways);
    scores_.push_back(std::move(score));
    return scores_.size() - 1;
  }

  // The most bytes alive from the first to the last call of each phase.
  std::vector<Bytes> find_phase_loads(const ProgramPlan& plan,
                                      const std::vector<Buffer>& buffers) const {
    const size_t phases = slots_.size() / 2;
    if (phases < 2) return std::vector<Bytes>(phases);
    std::vector<Interval> windows(phases, {std::numeric_limits<int64_t>::max(), 0});
    walk_items(plan, [&](const Item& item, int64_t number, LoopId) {
      const auto* call = std::get_if<Call>(&item);
      if (call == nullptr || phase_of_[call->node.index()] < 0) return;
      Interval& window = windows[static_cast<size_t>(phase_of_[call->node.index()])];
      window.begin = std::min(window.begin, number);
      window.end = std::max(window.end, number + 1);
    });
    std::vector<Bytes> loads;
    loads.reserve(phases);
    for (const Interval& window : windows) loads.push_back(find_load(buffers, window));
    return loads;
  }

  // The place of the score with the least bytes among those of these shapes, over all rules.
  size_t score_rules(const Shapes& shapes) {
    size_t best = 0;
    bool first = true;
    for (OrderRule rule : {OrderRule::kFreeFirst, OrderRule::kGraph, OrderRule::kSmallest}) {
      const size_t here = score({shapes, rule, false, {}});
      if (first || scores_[here].load < scores_[best].load) best = here;
      first = false;
    }
    return best;
  }

  void score_all() {
    const std::vector<Shapes> flat = make_flat_shapes(facts_, dependencies_, slots_);
    std::vector<Shapes> nested;
    if (options_.nested_loops) nested = make_nested_shapes(facts_, dependencies_, slots_);
    const OrderRule flat_rule = scores_[score_rules(flat.front())].recipe.rule;
    OrderRule nested_rule = flat_rule;
    if (!nested.empty()) nested_rule = scores_[score_rules(nested.front())].recipe.rule;
    score_rules(flat.back());
    for (const Shapes& shapes : nested) score_both(shapes, nested_rule);
    score_both(flat.front(), flat_rule);
    mix_phases(flat_rule);
    mix_phases(nested_rule);
    for (const Shapes& shapes : flat) score({shapes, flat_rule, false, {}});
  }

  // With inputs kept and with inputs read again.
  void score_both(const Shapes& shapes, OrderRule rule) {
    score({shapes, rule, false, {}});
    if (options_.reread_inputs) score({shapes, rule, true, {}});
  }

  // Each phase cut as in the candidate that needs least there.
  void mix_phases(OrderRule rule) {
    if (slots_.size() / 2 < 2) return;
    for (bool reread : {false, true}) {
      Recipe mixed{Shapes(slots_.size() / 2), rule, reread, {}};
      std::vector<Bytes> least(slots_.size() / 2, Bytes(std::numeric_limits<int64_t>::max()));
      for (const Score& score : scores_) {
        if (score.recipe.rule != rule || score.recipe.reread != reread) continue;
        for (size_t p = 0; p < least.size(); ++p) {
          if (score.phase_loads[p] >= least[p]) continue;
          least[p] = score.phase_loads[p];
          mixed.shapes[p] = score.recipe.shapes[p];
        }
      }
      if (least.front() != Bytes(std::numeric_limits<int64_t>::max())) score(mixed);
    }
  }

  // From the best candidates on: gives up what is alive at the peak and not used, bit by bit.
  void evict_all() {
    std::vector<Recipe> bases;
    for (const Score* score : find_frontier()) bases.push_back(score->recipe);
    if (bases.size() > kMostBases) {
      // The ends and what lies evenly between them.
      std::vector<Recipe> some;
      for (size_t i = 0; i < kMostBases; ++i) {
        some.push_back(bases[i * (bases.size() - 1) / (kMostBases - 1)]);
      }
      bases = std::move(some);
    }
    for (const Recipe& base : bases) evict_from(base);
  }

  void evict_from(Recipe recipe) {
    const EvictOptions how{.forms = options_.saved_forms,
                           .recompute = options_.recompute,
                           .reread = options_.reread_inputs};
    Bytes least(std::numeric_limits<int64_t>::max());
    for (int failed = 0; failed < kPatience && steps_ > 0;) {
      steps_ -= static_cast<int64_t>(facts_.graph().nodes.size());
      const ProgramPlan plan = build(recipe);
      const std::vector<Buffer> buffers = find_buffers(plan);
      int64_t peak = 0;
      const Bytes load = find_load(buffers, kAlways, &peak);
      if (!recipe.cuts.empty())
        scores_.push_back({recipe, load, estimate_seconds(plan, facts_), {}});
      failed = load < least ? 0 : failed + 1;
      least = min(least, load);
      const std::vector<Cut> cuts =
          find_evictions({plan, buffers, peak}, recipe.cuts, Bytes(load.count() / kShare), facts_,
                         dependencies_, how);
      if (cuts.empty()) return;
      recipe.cuts.insert(recipe.cuts.end(), cuts.begin(), cuts.end());
    }
  }

  // Scores by rising load, seconds strictly falling.
  std::vector<const Score*> find_frontier() const {
    std::vector<const Score*> sorted;
    for (const Score& score : scores_) sorted.push_back(&score);
    std::ranges::stable_sort(sorted, [](const Score* a, const Score* b) {
      return a->load != b->load ? a->load < b->load : a->seconds < b->seconds;
    });
    std::vector<const Score*> frontier;
    for (const Score* score : sorted) {
      if (frontier.empty() || score->seconds < frontier.back()->seconds) frontier.push_back(score);
    }
    return frontier;
  }

  Candidate place(const Score& score) {
    Candidate candidate;
    candidate.plan = build(score.recipe);
    candidate.seconds = score.seconds;
    candidate.what = describe_shapes(score.recipe.shapes, facts_.batch());
    if (score.recipe.reread) candidate.what += ", inputs read again";
    candidate.what += describe_cuts(candidate.plan);
    const std::vector<Buffer> buffers = find_buffers(candidate.plan);
    steps_ -= static_cast<int64_t>(buffers.size());
    const CompleteOptions how{.gap = options_.gap, .several_placers = options_.several_placers};
    candidate.spill = complete_offsets(candidate.plan, facts_.graph(), states_, buffers, how);
    return candidate;
  }

  // The free plan and what is smaller, on a ladder of loads; from the smallest on.
  std::vector<Candidate> place_all() {
    double fastest = scores_.front().seconds;
    for (const Score& score : scores_) fastest = std::min(fastest, score.seconds);
    const std::vector<const Score*> frontier = find_frontier();
    const auto free = std::ranges::find_if(
        frontier, [&](const Score* score) { return score->seconds <= kFreeSlack * fastest; });
    const auto count = static_cast<size_t>(free - frontier.begin());
    // The free plan first, then the smallest, then what lies between.
    std::vector<Candidate> placed = {place(**free)};
    const Bytes free_bytes = placed.front().plan.arena_bytes;
    std::vector<size_t> rungs;
    double last = 0;
    for (size_t i = 0; i < count; ++i) {
      if (frontier[i]->load.size() < last * kRung) continue;
      last = frontier[i]->load.size();
      rungs.push_back(i);
    }
    const size_t step = std::max<size_t>(1, (rungs.size() + kMostPlaced - 1) / kMostPlaced);
    for (size_t r = 0; r < rungs.size() && (steps_ > 0 || r == 0); r += step) {
      if (frontier[rungs[r]]->load < free_bytes) placed.push_back(place(*frontier[rungs[r]]));
    }
    return keep_frontier(std::move(placed), free_bytes);
  }

  static std::vector<Candidate> keep_frontier(std::vector<Candidate> placed, Bytes free_bytes) {
    std::ranges::stable_sort(placed, [](const Candidate& a, const Candidate& b) {
      return a.plan.arena_bytes != b.plan.arena_bytes ? a.plan.arena_bytes < b.plan.arena_bytes
                                                      : a.seconds < b.seconds;
    });
    std::vector<Candidate> frontier;
    for (Candidate& candidate : placed) {
      if (candidate.plan.arena_bytes > free_bytes) break;
      if (!frontier.empty() && candidate.seconds >= frontier.back().seconds) continue;
      frontier.push_back(std::move(candidate));
    }
    PLIMSOLL_CHECK(!frontier.empty(), "the search finds a plan of every program");
    return frontier;
  }

  ProgramFacts& facts_;
  std::span<const StatePlacement> states_;
  const PlanOptions& options_;
  Dependencies dependencies_;
  std::vector<std::vector<graph::NodeId>> slots_;
  std::vector<int> phase_of_;  // per node; −1: outside of loops
  int64_t steps_;
  std::vector<Score> scores_;
};

}  // namespace

std::vector<Candidate> search_program(ProgramFacts& facts, std::span<const StatePlacement> states,
                                      const PlanOptions& options) {
  return Search(facts, states, options).run();
}

}  // namespace plimsoll::plan
