#include "plan/tree/cuts.h"

#include <gtest/gtest.h>

#include "plan/core/tree_editor.h"
#include "plan/tree/complete.h"
#include "plan/tree/loop_nest.h"
#include "plan/tree/text.h"
#include "plan/tree/tree.h"
#include "plan/validate/validator.h"
#include "toys/toy_plans.h"

namespace plimsoll::plan {
namespace {

graph::ProgramSet step() {
  return toys::parse_programs(R"(
program train batch 8
input %x float32 (B, 64)
state %w float32 (64, 64) weight trainable layer=dense
node h lines (%x, %w) -> (%h float32 (B, 64)) {} layer=dense forward
node y scale (%h) -> (%y float32 (B, 64)) {factor=0.5} layer=relu forward
node t total (%y) -> (%t float32 (64)) {} forward
node z shift (%y, %t) -> (%z float32 (B, 64)) {} forward
node loss grand_total (%z) -> (%loss float32 ()) {} loss
node dz scale (%z) -> (%dz float32 (B, 64)) {factor=2.0} backward
node dh gate (%dz, %y) -> (%dh float32 (B, 64)) {} layer=relu backward
node g lines_grad (%x, %dh) -> (%g float32 (64, 64)) {} layer=dense backward
node u descend (%w, %g) -> (%u float32 (64, 64)) {} update
node write state_write (%u) -> () {} writes=w update
output %loss
)");
}

// The flat plan with cuts of values by name, as text without sizes.
struct CutPlan {
  explicit CutPlan(std::vector<std::tuple<std::string, std::string, std::string>> named)
      : programs(step()) {
    const graph::Program& program = programs.programs.front();
    const ProgramFacts facts(program, catalog);
    const Dependencies dependencies = find_dependencies(facts);
    std::vector<Cut> cuts;
    for (const auto& [value, anchor, form] : named) {
      cuts.push_back({graph::find_value(program.graph, value),
                      graph::find_node(program.graph, anchor),
                      form.empty() ? CutKind::kRecompute : CutKind::kForm, form});
    }
    plan.programs.push_back(build_tree(make_flat_loop_nest(facts), facts, {}));
    apply_cuts(cuts, facts, dependencies, plan.programs.front());
    complete_plan(plan, programs, catalog);
  }
  std::string judge() const { return validate(plan, programs, catalog).message; }
  // Names of the calls in order, clones with their number.
  std::string calls() const {
    std::string text;
    for (const Item& item : plan.programs.front().items) {
      if (const auto* call = std::get_if<Call>(&item)) {
        text += programs.programs.front().graph.node(call->node).name;
        if (call->clone > 0) text += "'" + std::to_string(call->clone);
        text += " ";
      } else {
        text += std::holds_alternative<Feed>(item)     ? "feed "
                : std::holds_alternative<Encode>(item) ? "encode "
                                                       : "output ";
      }
    }
    return text;
  }

  graph::ProgramSet programs;
  toys::ToyCatalog catalog;
  Plan plan;
};

TEST(CutsTest, WithoutCutsNothingChanges) {
  EXPECT_EQ(CutPlan({}).calls(), "feed h y t z loss output dz dh g u write ");
}

TEST(CutsTest, ClonesStandBeforeTheFirstReaderAfterTheAnchor) {
  const CutPlan cut({{"y", "loss", ""}});
  EXPECT_EQ(cut.judge(), "");
  EXPECT_EQ(cut.calls(), "feed h y t z loss output dz y'1 dh g u write ");
}

TEST(CutsTest, OperandsOfClonesAreCutToo) {
  const CutPlan cut({{"y", "loss", ""}, {"h", "loss", ""}, {"x", "loss", ""}});
  EXPECT_EQ(cut.judge(), "");
  EXPECT_EQ(cut.calls(), "feed h y t z loss output dz feed h'1 y'1 dh g u write ");
}

TEST(CutsTest, SeveralAnchorsMakeSeveralClones) {
  const CutPlan cut({{"y", "z", ""}, {"y", "dz", ""}});
  EXPECT_EQ(cut.judge(), "");
  EXPECT_EQ(cut.calls(), "feed h y t y'1 z loss output dz y'2 dh g u write ");
}

TEST(CutsTest, FormsAreMadeAfterTheLastPlainReader) {
  const CutPlan cut({{"y", "loss", "positive_bits"}});
  EXPECT_EQ(cut.judge(), "");
  EXPECT_EQ(cut.calls(), "feed h y t z encode loss output dz dh g u write ");
}

TEST(CutsTest, WhatCannotBeIsLeftOut) {
  // A total has no clone; nobody reads h as bits; after the update w is another.
  for (const auto& [value, anchor, form] :
       std::vector<std::tuple<const char*, const char*, const char*>>{
           {"t", "z", ""}, {"h", "y", "positive_bits"}, {"loss", "dz", ""}, {"u", "write", ""}}) {
    const CutPlan cut({{value, anchor, form}});
    EXPECT_EQ(cut.judge(), "") << value;
    EXPECT_EQ(cut.calls(), CutPlan({}).calls()) << value;
  }
}

TEST(TreeEditorTest, KeepsOrderHoweverOftenItIsChanged) {
  ProgramPlan plan;
  plan.loops.push_back({"batch", 8, 2, {Feed{InstanceId(0)}}});
  plan.items = {Enter{LoopId(0)}, Output{InstanceId(1)}};
  TreeEditor editor(plan);
  TreeEditor::Index inner = 1;
  for (int i = 0; i < 100; ++i) inner = editor.insert_before(inner, Feed{InstanceId(10 + i)});
  editor.insert_after(0, Output{InstanceId(2)});
  editor.write_back(plan);
  ASSERT_EQ(plan.loops[0].items.size(), 101u);
  EXPECT_EQ(plan.loops[0].items[0], Item(Feed{InstanceId(109)}));
  EXPECT_EQ(plan.loops[0].items[99], Item(Feed{InstanceId(10)}));
  const std::vector<Item> root = {Enter{LoopId(0)}, Output{InstanceId(2)}, Output{InstanceId(1)}};
  EXPECT_EQ(plan.items, root);
}

}  // namespace
}  // namespace plimsoll::plan
