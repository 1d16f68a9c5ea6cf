#include "plan/search/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "plan/core/walk.h"
#include "plan/search/candidates.h"
#include "plan/search/phase_ladder.h"
#include "plan/search/phase_model.h"
#include "plan/search/refine.h"
#include "plan/tree/evict.h"
#include "plan/tree/restore.h"
#include "plan/tree/spill_placement.h"

namespace plimsoll::plan {
namespace {

// The free plan is the smallest of those that take at most this much of the fastest one's time.
constexpr double kFreeSlack = 1.02;
// From so many candidates on values are given up one after the other.
constexpr size_t kMostBases = 4;
constexpr int64_t kChangesPerBase = 40;
// In programs of so few nodes every shape is tried by every rule, values are given up from every
// candidate on, and all of the frontier is placed.
constexpr int64_t kSmallProgram = 16;
// Where they have so few cuts every choice of them is tried.
constexpr size_t kMostExactCuts = 5;
// In programs of so few nodes choices of cuts are improved bit by bit, at this share of all effort,
// or that where there is nothing else to do; of values of at least so much of the smallest load,
// where there are not too many cuts of them.
constexpr int64_t kMediumProgram = 64;
constexpr double kRefineShare = 0.15;
constexpr double kUnslicedRefineShare = 0.6;
constexpr double kLeastRefined = 0.01;
constexpr size_t kMostRefined = 512;
// Segments and shares that checkpointing tries.
constexpr size_t kMostSegments = 32;
constexpr std::array<double, 5> kCheckpointShares = {1.0, 0.95, 0.9, 0.85, 0.8};
// So many changes may fail to make a plan smaller before the next base is taken.
constexpr int kPatience = 6;
// A change gives up at least this share of what is alive, more where the effort would not last for
// as many changes as it takes to get down to a tenth.
constexpr double kLeastShare = 0.01;
constexpr double kTenthInLogs = 2.3;

// The share of the effort for taking cuts back: on so many loads, in so many rounds each.
constexpr double kRestoreShare = 0.5;
constexpr size_t kRestoreRungs = 16;
constexpr int kRestoreRounds = 5;
constexpr std::array<double, 3> kExchanges = {0.1, 0.05, 0.2};

// Where phases are chosen in: the share of the effort, on so many rungs, the last one at so much of
// the smallest load that is known.
constexpr double kPhaseShare = 0.75;
constexpr int64_t kPhaseRungs = 40;
constexpr double kBelowSmallest = 0.7;
// With deferred updates, around and below the smallest load that is known without them, with so
// much of all effort besides, once for slices and once for the ladder, where that is enough for so
// many rungs; not where gradients would take more than such a share of the load.
constexpr double kLateEffort = 0.2;
constexpr int64_t kLateRungs = 40;
constexpr int64_t kLeastLateRungs = 20;
constexpr int64_t kLateAttempts = 12;
constexpr double kLateMost = 2;
constexpr double kLateLeast = 0.35;
constexpr double kMostGradients = 0.2;

// Axes that are tried besides the batch where samples are large.
constexpr std::array<std::string_view, 1> kOtherAxes = {graph::kRowsAxis};

struct Score {
  Schedule schedule;  // without cuts
  Bytes load;
  double seconds = 0;
  std::vector<Bytes> phase_loads;
  // The first `cuts` of a chain of cuts; chains grow, so that scores need no copies.
  size_t chain = 0;
  size_t cuts = 0;
  int64_t clones = 0;  // at most as many as the plan has
};

class Search {
 public:
  Search(ProgramFacts& facts, std::span<const StatePlacement> states, const PlanOptions& options,
         const Phasing& phasing)
      : facts_(facts),
        states_(states),
        options_(options),
        phasing_(phasing),
        trials_(facts, states, options, phasing),
        spilled_(has_spilled_states(facts.graph(), states)),
        steps_(options.max_steps) {}

  Searched run(const Wanted& wanted) {
    score_all();
    if (options_.saved_forms || options_.recompute || options_.move) evict_all();
    std::vector<Candidate> placed = place_all(wanted);
    std::vector<Loaded> scored;
    for (const Score* score : find_frontier()) scored.push_back({score->load, score->seconds});
    return {std::move(placed), std::move(plain_), std::move(scored), cut_short_};
  }

  // Candidates of a program that is cut into phases, with values that are made again; nothing of
  // any other. `early`: what was found without deferred updates.
  std::vector<Candidate> run_late(const Wanted& wanted, const Searched& early) {
    const Bytes smallest = early.scored.front().load;
    const Bytes gradients = find_gradient_bytes(facts_);
    const Bytes most(static_cast<int64_t>(kMostGradients * smallest.size()));
    if (trials_.phase_count() < 2 || gradients == Bytes() || gradients > most) return {};
    const auto deferred = static_cast<int64_t>(kLateEffort * static_cast<double>(steps_));
    steps_ = deferred;
    score_all();
    refine_all();
    if (deferred >= kLeastLateRungs * effort()) steps_ = std::max(steps_, deferred);
    const auto load = static_cast<double>(smallest.count());
    choose_in_phases({.most = static_cast<int64_t>(kLateMost * load),
                      .least = static_cast<int64_t>(kLateLeast * load),
                      .rungs = kLateRungs,
                      .attempts = kLateAttempts});
    return place_all(wanted, early.scored);
  }

  bool cut_short() const { return cut_short_; }

 private:
  Bytes smallest_load() const { return find_frontier().front()->load; }

  // The effort of one plan: 1 at least, since a program may hand its inputs out as they are.
  int64_t effort() const {
    return std::max<int64_t>(1, static_cast<int64_t>(facts_.graph().nodes.size()));
  }

  bool small() const { return effort() <= kSmallProgram; }

  bool spent() {
    if (steps_ <= 0) cut_short_ = true;
    return steps_ <= 0;
  }

  // Scores a schedule unless it is known or the effort is spent. Returns its score's place.
  size_t score(const Schedule& schedule) {
    for (size_t i = 0; i < scores_.size(); ++i) {
      if (scores_[i].schedule == schedule) return i;
    }
    if (spent() && !scores_.empty()) return 0;
    steps_ -= effort();
    const ProgramPlan plan = trials_.build(schedule);
    const std::vector<Buffer> buffers = find_buffers(plan);
    scores_.push_back({schedule, find_load(buffers, kAlways), estimate_seconds(plan, facts_),
                       trials_.find_phase_loads(plan, buffers)});
    return scores_.size() - 1;
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

  std::vector<Shapes> find_flat_shapes() const {
    std::vector<Shapes> flat = make_flat_shapes(facts_, trials_.dependencies(), trials_.slots());
    if (!options_.slices) flat.erase(flat.begin(), flat.end() - 1);
    return flat;
  }

  void score_all() {
    const Dependencies& dependencies = trials_.dependencies();
    const std::vector<Shapes> flat = find_flat_shapes();
    std::vector<Shapes> nested;
    if (options_.nested_loops && options_.slices)
      nested = make_nested_shapes(facts_, dependencies, trials_.slots());
    const OrderRule flat_rule = scores_[score_rules(flat.front())].schedule.rule;
    OrderRule nested_rule = flat_rule;
    if (!nested.empty()) nested_rule = scores_[score_rules(nested.front())].schedule.rule;
    whole_ = score_rules(flat.back());
    note_plain(whole_, "whole batch, all kept");
    for (const Shapes& shapes : nested) score_both(shapes, nested_rule);
    score_both(flat.front(), flat_rule);
    mix_phases(flat_rule);
    mix_phases(nested_rule);
    if (small()) score_products(flat, nested);
    size_t smallest = whole_;
    for (const Shapes& shapes : flat) {
      const size_t here = score({shapes, flat_rule, false, {}});
      if (scores_[here].load < scores_[smallest].load) smallest = here;
      if (spilled_) score({shapes, flat_rule, false, {}, true});
    }
    note_plain(smallest, "slices alone");
  }

  // Every shape by every rule.
  void score_products(const std::vector<Shapes>& flat, const std::vector<Shapes>& nested) {
    for (const std::vector<Shapes>* all : {&flat, &nested}) {
      for (const Shapes& shapes : *all) {
        for (OrderRule rule : {OrderRule::kGraph, OrderRule::kFreeFirst, OrderRule::kSmallest}) {
          score_both(shapes, rule);
        }
      }
    }
  }

  void note_plain(size_t score, const std::string& what) {
    const Score& noted = scores_[score];
    plain_.push_back({{noted.load, noted.seconds, what}, schedule_of(noted)});
    plain_.back().schedule.phasing = phasing_;
  }
  // The smallest of the scores from `first` on, if there are any.
  void note_smallest(size_t first, const std::string& what) {
    if (first >= scores_.size()) return;
    const auto begin = scores_.begin() + static_cast<int64_t>(first);
    note_plain(
        static_cast<size_t>(std::ranges::min_element(begin, scores_.end(), {}, &Score::load) -
                            scores_.begin()),
        what);
  }

  // With inputs kept and with inputs read again.
  void score_both(const Shapes& shapes, OrderRule rule) {
    score({shapes, rule, false, {}});
    if (options_.reread_inputs) score({shapes, rule, true, {}});
    if (spilled_) score({shapes, rule, options_.reread_inputs, {}, true});
  }

  // Each phase cut as in the candidate that needs least there.
  void mix_phases(OrderRule rule) {
    const size_t phases = trials_.phase_count();
    if (phases < 2) return;
    for (bool reread : {false, true}) {
      Schedule mixed{Shapes(phases), rule, reread, {}};
      std::vector<Bytes> least(phases, Bytes(std::numeric_limits<int64_t>::max()));
      for (const Score& score : scores_) {
        if (score.schedule.rule != rule || score.schedule.reread != reread) continue;
        for (size_t p = 0; p < least.size(); ++p) {
          if (score.phase_loads[p] >= least[p]) continue;
          least[p] = score.phase_loads[p];
          mixed.shapes[p] = score.schedule.shapes[p];
        }
      }
      if (least.front() != Bytes(std::numeric_limits<int64_t>::max())) score(mixed);
    }
  }

  // Where giving up starts: the smallest slices, which leave least inside of loops, the smallest
  // and the fastest candidate, and what lies between them.
  std::vector<Schedule> find_bases() {
    std::vector<Schedule> bases;
    const auto add = [&](const Schedule& schedule) {
      if (std::ranges::find(bases, schedule) == bases.end()) bases.push_back(schedule);
    };
    const std::vector<const Score*> frontier = find_frontier();
    add(frontier.front()->schedule);
    add({find_flat_shapes().front(), frontier.front()->schedule.rule, false, {}});
    add(scores_[whole_].schedule);
    for (size_t i = 1; i < kMostBases; ++i) {
      add(frontier[i * (frontier.size() - 1) / (kMostBases - 1)]->schedule);
    }
    if (small()) {
      for (const Score& score : scores_) add(score.schedule);
      return bases;
    }
    const int64_t affordable = std::max<int64_t>(1, steps_ / (kChangesPerBase * effort()));
    const auto most = static_cast<size_t>(std::min<int64_t>(kMostBases, affordable));
    if (bases.size() > most) {
      bases.resize(most);
      cut_short_ = true;
    }
    return bases;
  }

  // Checkpointing: 2, 4, 8, … segments, and √n.
  void score_checkpoints(Schedule schedule) {
    std::set<size_t> counts;
    for (size_t segments = 2; segments <= kMostSegments; segments *= 2) counts.insert(segments);
    counts.insert(count_root_segments(facts_));
    for (size_t segments : counts) {
      if (spent()) return;
      schedule.cuts = make_checkpoints(facts_, trials_.dependencies(), segments);
      if (schedule.cuts.empty()) return;
      steps_ -= effort();
      const ProgramPlan plan = trials_.build(schedule);
      add_score(schedule, plan, find_load(find_buffers(plan), kAlways), chains_.size());
      chains_.push_back(std::move(schedule.cuts));
    }
  }

  // Checkpointing with every loop on the way back computing its own again: few and many segments,
  // of all values and of the larger ones alone.
  void score_loop_checkpoints(Schedule schedule) {
    const ProgramPlan tree = trials_.build(schedule);
    const size_t most = std::min(kMostSegments, count_forward(facts_) / 2);
    for (size_t segments = 2; segments <= most; segments *= 2) {
      for (double share : kCheckpointShares) {
        if (spent()) return;
        schedule.cuts =
            make_loop_checkpoints(tree, facts_, trials_.dependencies(), {segments, share});
        if (schedule.cuts.empty()) return;
        steps_ -= effort();
        const ProgramPlan plan = trials_.build(schedule);
        add_score(schedule, plan, find_load(find_buffers(plan), kAlways), chains_.size());
        checkpoints_.push_back(scores_.size() - 1);
        chains_.push_back(schedule.cuts);
      }
    }
  }

  void add_score(const Schedule& schedule, const ProgramPlan& plan, Bytes load, size_t chain) {
    scores_.push_back({{schedule.shapes, schedule.rule, schedule.reread, {}, schedule.reload},
                       load,
                       estimate_seconds(plan, facts_),
                       {},
                       chain,
                       schedule.cuts.size(),
                       count_clones(plan)});
  }

  void evict_all() {
    const std::vector<Schedule> bases = find_bases();
    const Schedule whole = scores_[whole_].schedule;
    const size_t uncut = scores_.size();
    size_t first = uncut;
    if (options_.recompute) score_checkpoints(whole);
    note_smallest(first, "checkpoints");
    if (options_.recompute && bases.front() != whole) score_checkpoints(bases.front());
    if (options_.recompute) {
      score_loop_checkpoints({find_flat_shapes().front(), bases.front().rule, false, {}});
    }
    const double share = !options_.recompute ? 0 : has_phases() ? kPhaseShare : kRestoreShare;
    const auto kept = static_cast<int64_t>(share * static_cast<double>(steps_));
    for (size_t b = 0; b < bases.size(); ++b) {
      first = scores_.size();
      evict_from(bases[b], (steps_ - kept) / static_cast<int64_t>(bases.size() - b));
      if (bases[b] == whole) note_smallest(first, "greedy eviction");
    }
    cut_exactly(uncut);
    refine_all();
    if (!options_.recompute) return;
    choose_in_phases({.least = static_cast<int64_t>(kBelowSmallest *
                                                    static_cast<double>(smallest_load().count())),
                      .rungs = kPhaseRungs});
    restore_all();
  }

  // Where totals cut loops over the batch, on a ladder of loads: from nothing given up on every few
  // rungs, in between from the last rung on.
  bool has_phases() const {
    return phasing_.axis.of_samples() && !options_.move && effort() > kMediumProgram &&
           trials_.phase_count() > 1;
  }
  void choose_in_phases(PhaseLadder ladder) {
    if (!has_phases()) return;
    Schedule schedule{find_phase_shapes(), find_frontier().front()->schedule.rule, false, {}};
    const ProgramPlan tree = trials_.build(schedule);
    const std::vector<Buffer> buffers = find_buffers(tree);
    const PhaseModel model =
        make_phase_model({tree, buffers}, facts_, trials_.dependencies(),
                         {.forms = options_.saved_forms, .reread = options_.reread_inputs});
    if (PhaseSearch::is_too_large(model)) return;
    ladder.steps = steps_;
    ladder.scoring = effort();
    steps_ = descend(model, ladder, [&](const PhaseSearch& search) {
      schedule.cuts = search.cuts();
      return score_phases(model, search, schedule);
    });
  }

  // Inner loops leave less between the items of a phase that one large block holds together.
  Shapes find_phase_shapes() const {
    std::vector<Shapes> nested;
    if (options_.nested_loops && options_.slices) {
      nested = make_nested_shapes(facts_, trials_.dependencies(), trials_.slots());
    }
    return nested.empty() ? find_flat_shapes().front() : nested.front();
  }

  // Scores the choice; what each place holds beyond what the model says.
  std::vector<int64_t> score_phases(const PhaseModel& model, const PhaseSearch& search,
                                    const Schedule& schedule) {
    const ProgramPlan plan = trials_.build(schedule);
    const std::vector<Buffer> buffers = find_buffers(plan);
    const Bytes load = find_load(buffers, kAlways);
    if (!is_outdone(load, estimate_seconds(plan, facts_))) {
      add_score(schedule, plan, load, chains_.size());
      chains_.push_back(schedule.cuts);
    }
    std::vector<int64_t> more = find_place_loads(model, {plan, buffers});
    for (size_t p = 0; p < more.size(); ++p) more[p] -= search.profile()[p];
    return more;
  }

  // From the smallest candidate on, by single cuts.
  void refine_all() {
    if (effort() > kMediumProgram || !phasing_.axis.of_samples() || options_.move) return;
    const Bytes load = find_frontier().front()->load;
    Schedule schedule = find_frontier().front()->schedule;
    schedule.cuts = {};
    const Bytes least(static_cast<int64_t>(kLeastRefined * load.size()));
    std::vector<Cut> universe =
        find_universe(trials_.build(schedule), least, facts_, trials_.dependencies());
    std::erase_if(universe, [&](const Cut& cut) { return !is_allowed(cut); });
    if (universe.empty() || universe.size() > kMostRefined) return;
    const bool unsliced = find_flat_shapes().size() == 1;
    const double share = unsliced ? kUnslicedRefineShare : kRefineShare;
    const auto steps = static_cast<int64_t>(share * static_cast<double>(options_.max_steps));
    refine_from(std::move(schedule), universe, std::min(steps, steps_) / effort());
  }

  void refine_from(Schedule schedule, const std::vector<Cut>& universe, int64_t trials) {
    std::vector<std::vector<Cut>> known;
    for (const Score* score : find_frontier()) {
      if (score->schedule == schedule && score->cuts > 0) known.push_back(schedule_of(*score).cuts);
    }
    const auto score = [&](CutChoice& choice) {
      steps_ -= effort();
      schedule.cuts = choice.cuts;
      const ProgramPlan plan = trials_.build(schedule);
      choice.load = find_load(find_buffers(plan), kAlways);
      choice.seconds = estimate_seconds(plan, facts_);
    };
    for (CutChoice& choice : refine_cuts(known, universe, score, trials)) {
      schedule.cuts = {};
      scores_.push_back(
          {schedule, choice.load, choice.seconds, {}, chains_.size(), choice.cuts.size()});
      chains_.push_back(std::move(choice.cuts));
    }
  }

  bool is_allowed(const Cut& cut) const {
    return cut.kind == CutKind::kForm ? how_to_evict().forms : options_.recompute;
  }

  // On a ladder of loads from the smallest one up: what there is room for is kept again, in the
  // fastest plan of that load and in the fastest checkpoints; then others are given up for it.
  void restore_all() {
    const std::vector<const Score*> ends = find_frontier();
    const auto least = static_cast<double>(std::max<int64_t>(1, ends.front()->load.count()));
    const double ratio = static_cast<double>(ends.back()->load.count()) / least;
    if (ratio <= 1) return;
    // Those in the middle first.
    for (size_t step = kRestoreRungs / 2; step > 0; step /= 2) {
      for (size_t rung = step; rung < kRestoreRungs && steps_ > 0; rung += 2 * step) {
        const double share = static_cast<double>(rung) / static_cast<double>(kRestoreRungs);
        restore_within(Bytes(static_cast<int64_t>(least * std::pow(ratio, share))));
      }
    }
  }

  void restore_within(Bytes most) {
    std::optional<size_t> checkpoints = find_fastest(checkpoints_, most);
    if (checkpoints) restore_from(schedule_of(scores_[*checkpoints]), most);
    for (int64_t iteration = 0; iteration <= std::ssize(kExchanges) && steps_ > 0; ++iteration) {
      const std::optional<size_t> fastest = find_fastest(all_places(), most);
      if (!fastest) return;
      if (iteration == 0) {
        restore_from(schedule_of(scores_[*fastest]), most);
      } else {
        exchange_in(schedule_of(scores_[*fastest]), most,
                    kExchanges[static_cast<size_t>(iteration - 1)]);
      }
    }
  }

  std::vector<size_t> all_places() const {
    std::vector<size_t> places(scores_.size());
    std::iota(places.begin(), places.end(), size_t{0});
    return places;
  }

  // The place of the fastest of these scores within so many bytes.
  std::optional<size_t> find_fastest(std::span<const size_t> places, Bytes most) const {
    std::optional<size_t> best;
    for (size_t place : places) {
      if (scores_[place].load > most) continue;
      if (!best || scores_[place].seconds < scores_[*best].seconds) best = place;
    }
    return best;
  }

  // Gives up some more, and then keeps what there is room for.
  void exchange_in(Schedule schedule, Bytes most, double share) {
    const ProgramPlan plan = trials_.build(schedule);
    steps_ -= effort();
    const std::vector<Buffer> buffers = find_buffers(plan);
    const Bytes goal(static_cast<int64_t>(share * find_load(buffers, kAlways).size()));
    const std::vector<Cut> more = find_evictions({plan, buffers}, schedule.cuts, goal, facts_,
                                                 trials_.dependencies(), how_to_evict());
    schedule.cuts.insert(schedule.cuts.end(), more.begin(), more.end());
    restore_from(std::move(schedule), most);
  }

  // Whether another plan is as small and as fast.
  bool is_outdone(Bytes load, double seconds) const {
    return std::ranges::any_of(scores_, [&](const Score& score) {
      return score.load <= load && score.seconds <= seconds;
    });
  }

  void restore_from(Schedule schedule, Bytes most) {
    for (int round = 0; round < kRestoreRounds && !schedule.cuts.empty(); ++round) {
      if (steps_ <= 0) return;
      steps_ -= effort();
      const ProgramPlan plan = trials_.build(schedule);
      const std::vector<Buffer> buffers = find_buffers(plan);
      if (round > 0) {
        const Bytes load = find_load(buffers, kAlways);
        if (!is_outdone(load, estimate_seconds(plan, facts_))) {
          add_score(schedule, plan, load, chains_.size());
          chains_.push_back(schedule.cuts);
        }
      }
      std::vector<Cut> left = take_back({plan, buffers}, schedule.cuts, most, facts_);
      if (left.size() == schedule.cuts.size()) return;
      schedule.cuts = std::move(left);
    }
  }

  // Every choice of cuts from every candidate on, where these are few.
  void cut_exactly(size_t bases) {
    std::vector<Cut> cuts = find_all_cuts(facts_, trials_.dependencies());
    std::erase_if(cuts, [&](const Cut& cut) { return !is_allowed(cut); });
    if (!small() || cuts.size() > kMostExactCuts) return;
    for (size_t choice = 1; choice < size_t{1} << cuts.size(); ++choice) {
      std::vector<Cut> chosen;
      for (size_t c = 0; c < cuts.size(); ++c) {
        if ((choice >> c & 1) != 0) chosen.push_back(cuts[c]);
      }
      for (size_t b = 0; b < bases && steps_ > 0; ++b) {
        Schedule schedule = scores_[b].schedule;
        schedule.cuts = chosen;
        steps_ -= effort();
        const ProgramPlan plan = trials_.build(schedule);
        add_score(schedule, plan, find_load(find_buffers(plan), kAlways), chains_.size());
      }
      chains_.push_back(std::move(chosen));
    }
  }

  // Bits have no rows but samples; beside moves, clones of whole samples in front of loops do not
  // pay.
  EvictOptions how_to_evict() const {
    const bool samples = phasing_.axis.of_samples();
    return {.forms = options_.saved_forms && samples,
            .recompute = options_.recompute && (samples || !options_.move),
            .reread = options_.reread_inputs,
            .move = options_.move};
  }

  // Gives up what is alive at the peak and not used, bit by bit.
  void evict_from(Schedule schedule, int64_t steps) {
    const EvictOptions how = how_to_evict();
    const double changes = static_cast<double>(steps) / static_cast<double>(effort());
    const double share = std::max(kLeastShare, kTenthInLogs / std::max(1.0, changes));
    if (share > kLeastShare) cut_short_ = true;
    Bytes least(std::numeric_limits<int64_t>::max());
    std::vector<Cut>& cuts = schedule.cuts;
    for (int failed = 0; failed < kPatience && steps > 0; steps -= effort()) {
      steps_ -= effort();
      const ProgramPlan plan = trials_.build(schedule);
      const std::vector<Buffer> buffers = find_buffers(plan);
      const Bytes load = find_load(buffers, kAlways);
      failed = load < least ? 0 : failed + 1;
      if (!cuts.empty() && load < least) add_score(schedule, plan, load, chains_.size());
      least = min(least, load);
      const Bytes goal(static_cast<int64_t>(share * load.size()));
      const std::vector<Cut> more =
          find_evictions({plan, buffers}, cuts, goal, facts_, trials_.dependencies(), how);
      if (more.empty()) break;
      cuts.insert(cuts.end(), more.begin(), more.end());
    }
    chains_.push_back(std::move(cuts));
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

  Schedule schedule_of(const Score& score) const {
    Schedule schedule = score.schedule;
    if (score.cuts > 0) {
      const std::vector<Cut>& chain = chains_[score.chain];
      schedule.cuts.assign(chain.begin(), chain.begin() + static_cast<int64_t>(score.cuts));
    }
    return schedule;
  }

  Candidate place(const Score& score) {
    Candidate candidate{schedule_of(score), {}, {}, score.seconds, {}};
    ProgramPlan plan = trials_.build(candidate.schedule);
    candidate.schedule.phasing = phasing_;
    candidate.what = describe_shapes(score.schedule.shapes, phasing_.axis, facts_.batch());
    if (score.schedule.reread) candidate.what += ", inputs read again";
    candidate.what += describe_cuts(plan);
    if (phasing_.deferred_updates) candidate.what += ", deferred updates";
    const std::vector<Buffer> buffers = find_buffers(plan);
    steps_ -= static_cast<int64_t>(buffers.size());
    const CompleteOptions how{.gap = options_.gap, .several_placers = options_.several_placers};
    candidate.spill = complete_offsets(plan, facts_.graph(), states_, buffers, how);
    candidate.arena_bytes = plan.arena_bytes + options_.clone_bytes * count_clones(plan);
    return candidate;
  }

  // The free plan, and what is smaller; not what others are better than.
  std::vector<Candidate> place_all(const Wanted& wanted, std::span<const Loaded> others = {}) {
    double fastest = scores_.front().seconds;
    for (const Score& score : scores_) fastest = std::min(fastest, score.seconds);
    std::vector<Rung> rungs;
    for (const Score* score : find_frontier()) {
      const auto is_better = [&](const Loaded& other) {
        return other.load <= score->load && kFaster * other.seconds <= score->seconds;
      };
      if (std::ranges::none_of(others, is_better)) {
        rungs.push_back({static_cast<size_t>(score - scores_.data()), score->load, score->clones,
                         score->seconds});
      }
      if (score->seconds <= kFreeSlack * fastest) break;
    }
    if (rungs.empty()) return {};
    return place_rungs(rungs, small(), options_.clone_bytes, wanted,
                       [&](const Rung& rung) { return place(scores_[rung.score]); });
  }

  ProgramFacts& facts_;
  std::span<const StatePlacement> states_;
  const PlanOptions& options_;
  Phasing phasing_;
  Trials trials_;
  bool spilled_;  // some state variables lie in the spill file
  int64_t steps_;
  bool cut_short_ = false;
  std::vector<Score> scores_;
  std::vector<std::vector<Cut>> chains_;
  std::vector<size_t> checkpoints_;  // the scores of checkpoints in loops
  size_t whole_ = 0;                 // the score of the whole batch with everything kept
  std::vector<PlainPlan> plain_;
};

}  // namespace

Searched search_program(ProgramFacts& facts, std::span<const StatePlacement> states,
                        const PlanOptions& options, const Wanted& wanted) {
  Searched searched = Search(facts, states, options, {}).run(wanted);
  const Bytes free_bytes = searched.candidates.back().arena_bytes;
  const auto add = [&](std::vector<Candidate> candidates) {
    std::ranges::move(candidates, std::back_inserter(searched.candidates));
  };
  if (options.deferred_updates && options.recompute && options.slices && !options.move) {
    Search deferred(facts, states, options, {.deferred_updates = true});
    add(deferred.run_late(wanted, searched));
    searched.cut_short = searched.cut_short || deferred.cut_short();
  }
  // Loops over another axis for what does not fit otherwise, or is as fast in less.
  for (const LoopAxis axis : kOtherAxes) {
    if (!options.slices || !cuts_samples(facts, axis)) continue;
    Searched other = Search(facts, states, options, {.axis = axis}).run(wanted);
    add(std::move(other.candidates));
    searched.cut_short = searched.cut_short || other.cut_short;
  }
  Bytes most = free_bytes;
  if (options.keep_packs && !wanted.smallest_alone && !options.move) {
    std::vector<Candidate> kept = keep_packs_of(searched.candidates, facts, states, options);
    for (const Candidate& candidate : kept) most = max(most, candidate.arena_bytes);
    add(std::move(kept));
  }
  if (options.move && !wanted.smallest_alone) {
    std::vector<Candidate> roomy = give_room_to(searched.candidates, facts, states, options);
    for (const Candidate& candidate : roomy) most = max(most, candidate.arena_bytes);
    add(std::move(roomy));
  }
  searched.candidates = keep_frontier(std::move(searched.candidates), most);
  return searched;
}

}  // namespace plimsoll::plan
