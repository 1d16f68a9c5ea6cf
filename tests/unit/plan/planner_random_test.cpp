// Random graphs of toy operators: whatever the planner answers is valid and within its bounds.

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/verify.h"
#include "plan/search/planner.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "toys/sanitized.h"
#include "toys/toy_ops.h"

namespace plimsoll::plan {
namespace {

using graph::GraphBuilder;
using graph::ValueId;

class RandomGraph {
 public:
  RandomGraph(uint32_t seed, int64_t batch)
      : random_(seed), batch_(batch), builder_(toys::registry()) {}

  graph::Program make() {
    for (size_t i = 0; i <= draw(2); ++i) {
      carried_.push_back(builder_.input("x" + std::to_string(i), rows(width())));
    }
    const size_t nodes = 3 + draw(25);
    for (size_t n = 0; n < nodes; ++n) add_node();
    update_states();
    for (ValueId value : carried_) {
      if (draw(8) == 0) builder_.output(value);
    }
    for (ValueId value : totals_) {
      if (draw(4) == 0) builder_.output(value);
    }
    return {"train", builder_.finish(), batch_};
  }

 private:
  size_t draw(size_t below) { return random_() % below; }
  int64_t width() { return static_cast<int64_t>(1 + draw(3) * draw(20)); }
  template <typename T>
  const T& any(const std::vector<T>& from) {
    // Mostly recent ones, so that chains grow.
    const size_t back = draw(3) == 0 ? draw(from.size()) : draw(std::min<size_t>(3, from.size()));
    return from[from.size() - 1 - back];
  }
  static graph::ValueType rows(int64_t width) {
    return {DType::kFloat32, Shape({Dim::batch(), Dim::constant(width)})};
  }
  int64_t width_of(ValueId value) const { return builder_.type(value).shape[1].count; }

  ValueId state(std::vector<int64_t> dims) {
    const std::string name = "w" + std::to_string(states_.size());
    const graph::StateId id = builder_.state({.name = name,
                                              .type = {DType::kFloat32, fixed_shape(dims)},
                                              .role = graph::StateRole::kWeight,
                                              .layer = "layer",
                                              .trainable = true,
                                              .incoming = {},
                                              .write = {}});
    states_.push_back(id);
    values_.push_back(builder_.read(id));
    return values_.back();
  }

  // A value of one row of that width without a batch, if there is one.
  ValueId row_of(int64_t width) {
    for (ValueId value : totals_) {
      if (builder_.type(value).shape == fixed_shape(std::vector<int64_t>{width}) && draw(4) != 0) {
        return value;
      }
    }
    return state({width});
  }

  void add_node() {
    const ValueId x = any(carried_);
    switch (draw(9)) {
      case 0:
      case 1:
        carried_.push_back(builder_.call("scale", "scale", {x}, {{"factor", 2.0}}));
        break;
      case 2:
        carried_.push_back(builder_.call("shift", "shift", {x, row_of(width_of(x))}));
        break;
      case 3:
        totals_.push_back(builder_.call("total", "total", {x}));
        break;
      case 4:
        carried_.push_back(builder_.call("lines", "lines", {x, state({width_of(x), width()})}));
        break;
      case 5:
        add_gate(x);
        break;
      case 6:
        carried_.push_back(builder_.call(draw(3) == 0 ? "mix" : "smooth", "smooth", {x}));
        break;
      case 7:
        add_gradient(x);
        break;
      default:
        builder_.output(builder_.call("row_sum", "row_sum", {x}));
    }
  }

  void add_gate(ValueId x) {
    for (size_t i = carried_.size(); i-- > 0;) {
      if (carried_[i] != x && width_of(carried_[i]) == width_of(x)) {
        carried_.push_back(builder_.call("gate", "gate", {x, carried_[i]}));
        return;
      }
    }
  }

  void add_gradient(ValueId x) {
    const ValueId y = any(carried_);
    gradients_.push_back(builder_.call("lines_grad", "grad", {x, y}));
  }

  void update_states() {
    for (size_t s = 0; s < states_.size(); ++s) {
      for (ValueId gradient : gradients_) {
        if (builder_.type(gradient) != builder_.type(values_[s]) || draw(4) == 0) continue;
        builder_.write(states_[s], builder_.call("descend", "update", {values_[s], gradient}));
        break;
      }
    }
  }

  std::mt19937 random_;
  int64_t batch_;
  GraphBuilder builder_;
  std::vector<ValueId> carried_;
  std::vector<ValueId> totals_;
  std::vector<ValueId> gradients_;
  std::vector<graph::StateId> states_;
  std::vector<ValueId> values_;  // incoming, per state
};

void choose_blocks(const graph::Graph& graph, std::mt19937& random, toys::ToyCatalog& catalog) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    graph::Block block;
    for (size_t a = 0; a < graph::axes_of(graph, graph::NodeId(n)).size(); ++a) {
      block.push_back(random() % 6 == 0 ? graph::kWholeAxis : int64_t{1} << random() % 4);
    }
    catalog.blocks[graph.nodes[n].name] = std::move(block);
    if (random() % 4 == 0) catalog.row_exact_nodes.insert(graph.nodes[n].name);
  }
}

TEST(PlannerRandomTest, PlansOfRandomGraphsAreValid) {
  for (uint32_t seed = 0; seed < (toys::kSanitized ? 100 : 400); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto batch = static_cast<int64_t>(1 + random() % 40);
    graph::ProgramSet programs;
    programs.programs.push_back(RandomGraph(seed, batch).make());
    ASSERT_EQ(graph::verify(programs), std::nullopt) << graph::verify(programs).value_or("");
    toys::ToyCatalog catalog;
    choose_blocks(programs.programs[0].graph, random, catalog);
    PlanOptions options{.max_steps = 5'000};  // what is found is not the question
    const PlanOutcome free = make_plan(programs, catalog, options);
    const Plan naive = naive_plan(programs, catalog);
    const Validation plain = validate(naive, programs, catalog);
    EXPECT_TRUE(plain.ok()) << plain.message;
    EXPECT_LE(free.free_plan, naive.arena_bytes);
    EXPECT_GE(free.smallest, free.lower_bound);
    for (const FrontierPoint& point : free.frontier) {
      options.arena_limit = point.arena_bytes;
      const PlanOutcome outcome = make_plan(programs, catalog, options);
      ASSERT_NE(outcome.fits(), nullptr);
      const Validation validation = validate(outcome.fits()->plan, programs, catalog);
      ASSERT_TRUE(validation.ok()) << point.what << ": " << validation.message << "\n"
                                   << print(outcome.fits()->plan, programs);
    }
  }
}

}  // namespace
}  // namespace plimsoll::plan
