// Small training steps: no schedule of the plan space that plan/search/search.h states beats what
// the search finds, neither in bytes nor in time within them.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/search/planner.h"
#include "plan/search/trial.h"
#include "plan/tree/complete.h"
#include "toys/sanitized.h"
#include "toys/toy_ops.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

struct Point {
  Bytes arena;
  double seconds = 0;
  std::string what;
};

// All cuts that give up a value after its first reader.
std::vector<Cut> find_cuts(const ProgramFacts& facts, const Dependencies& dependencies) {
  std::vector<Cut> cuts;
  for (size_t v = 0; v < facts.graph().values.size(); ++v) {
    const graph::ValueId value(v);
    if (facts.graph().value(value).kind != graph::ValueKind::kNode) continue;
    bool first = true;
    for (graph::NodeId node : dependencies.order) {
      const auto& users = facts.users()[v];
      if (std::ranges::find(users, node) == users.end()) continue;
      if (!first) {
        cuts.push_back({value, node, CutKind::kRecompute, ""});
        for (size_t i = 0; i < facts.graph().node(node).inputs.size(); ++i) {
          if (facts.graph().node(node).inputs[i] != value) continue;
          const std::string form = smallest_form(facts, node, i);
          if (!form.empty()) cuts.push_back({value, node, CutKind::kForm, form});
        }
      }
      first = false;
    }
  }
  return cuts;
}

// Steps with many cuts have too many schedules to try them all.
constexpr size_t kMostCuts = 5;
constexpr OrderRule kRules[] = {OrderRule::kGraph, OrderRule::kFreeFirst, OrderRule::kSmallest};

// Empty where there are too many schedules.
std::vector<Point> try_everything(const graph::ProgramSet& programs,
                                  const toys::ToyCatalog& catalog) {
  const PlanOptions options;
  Plan base;
  place_states(programs, {}, {}, base);
  ProgramFacts facts(programs.programs.front(), catalog);
  Trials trials(facts, base.states, options);
  const std::vector<Cut> cuts = find_cuts(facts, trials.dependencies());
  std::vector<Point> points;
  if (cuts.size() > kMostCuts) return points;
  std::vector<Shapes> all = make_flat_shapes(facts, trials.dependencies(), trials.slots());
  for (Shapes& nested : make_nested_shapes(facts, trials.dependencies(), trials.slots())) {
    all.push_back(std::move(nested));
  }
  for (size_t choice = 0; choice < all.size() << cuts.size(); ++choice) {
    Schedule schedule{all[choice >> cuts.size()], OrderRule::kGraph, false, {}};
    for (size_t c = 0; c < cuts.size(); ++c) {
      if ((choice >> c & 1) != 0) schedule.cuts.push_back(cuts[c]);
    }
    for (size_t way = 0; way < 6; ++way) {
      schedule.rule = kRules[way / 2];
      schedule.reread = way % 2 != 0;
      const ProgramPlan plan = trials.build(schedule);
      const Bytes load = find_load(find_buffers(plan), kAlways);
      points.push_back({base.state_bytes + load, estimate_seconds(plan, facts),
                        describe_shapes(schedule.shapes, graph::kBatchAxis, facts.batch()) +
                            describe_cuts(plan)});
    }
  }
  return points;
}

graph::ProgramSet random_step(std::mt19937& random) {
  testing::ToyNetwork network;
  network.batch = static_cast<int64_t>(2 + random() % 8);
  network.widths.clear();
  const size_t layers = 1 + random() % 2;
  for (size_t l = 0; l <= layers; ++l) {
    network.widths.push_back(static_cast<int64_t>(1 + random() % 64));
  }
  network.normalized = random() % 3 == 0;
  return testing::toy_network(network);
}

toys::ToyCatalog random_blocks(const graph::Graph& graph, std::mt19937& random) {
  toys::ToyCatalog catalog;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    graph::Block block;
    for (size_t a = 0; a < graph::axes_of(graph, graph::NodeId(n)).size(); ++a) {
      block.push_back(a > 0 ? graph::kWholeAxis : int64_t{1} << random() % 4);
    }
    catalog.blocks[graph.nodes[n].name] = std::move(block);
  }
  return catalog;
}

// The free plan is the smallest of those within 2 % of the fastest, so nothing is asked of faster
// ones.
TEST(BruteForceTest, NoRecipeBeatsTheSearch) {
  constexpr int kGraphs = toys::kSanitized ? 50 : 500;
  int graphs = 0;
  for (uint32_t seed = 0; graphs < kGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const graph::ProgramSet programs = random_step(random);
    const toys::ToyCatalog catalog = random_blocks(programs.programs.front().graph, random);
    const std::vector<Point> points = try_everything(programs, catalog);
    if (points.empty()) continue;
    ++graphs;
    const PlanOutcome outcome = make_plan(programs, catalog, {});
    EXPECT_LE(outcome.smallest, std::ranges::min(points, {}, &Point::arena).arena);
    for (const Point& point : points) {
      const double seconds = std::max(point.seconds, outcome.free_seconds) * (1 + 1e-9);
      EXPECT_TRUE(std::ranges::any_of(outcome.frontier,
                                      [&](const FrontierPoint& found) {
                                        return found.arena_bytes <= point.arena &&
                                               found.seconds <= seconds;
                                      }))
          << point.what << ": " << point.arena.count() << " B, " << point.seconds << " s";
    }
  }
}

}  // namespace
}  // namespace plimsoll::plan
