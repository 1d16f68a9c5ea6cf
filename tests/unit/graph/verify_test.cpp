#include "graph/verify.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "unit/graph/test_ops.h"

namespace plimsoll::graph {
namespace {

using testing::test_registry;

std::string problem_of(std::string_view text) {
  return verify(parse_graph(text, test_registry())).value_or("right");
}

Graph good() {
  return parse_graph(
      "input %x float32 (B, 4)\n"
      "state %w float32 (4, 2) weight trainable\n"
      "node y matmul (%x, %w) -> (%y float32 (B, 2)) {} forward\n"
      "node dw matmul_grad_w (%x, %y) -> (%dw float32 (4, 2)) {} backward\n"
      "node w/write state_write (%dw) -> () {} writes=w update\n",
      test_registry());
}

TEST(VerifyTest, AcceptsAGoodGraph) { EXPECT_EQ(verify(good()), std::nullopt); }

TEST(VerifyTest, ResultTypesMustBeTheRules) {
  EXPECT_EQ(problem_of("input %x float32 (B, 4)\n"
                       "node y product (%x, %x) -> (%y float32 (B, 5)) {} forward\n"),
            "node y: result %y: expected float32 (B, 4), received float32 (B, 5)");
  EXPECT_EQ(problem_of("input %x float32 (B, 4)\nnode y product (%x) -> () {} forward\n"),
            "node y: expected other operands, received (B, 4).");
  EXPECT_EQ(problem_of("input %x float32 (B, 4)\nnode y product (%x, %x) -> () {} forward\n"),
            "node y: expected 1 results, received 0");
}

TEST(VerifyTest, AMissingAttributeIsTheGraphsFault) {
  EXPECT_EQ(problem_of("node z zeros () -> (%z float32 (2)) {dtype=\"float32\"} forward\n"),
            "node z: attribute \"shape\": expected a list of integers, received none.");
  EXPECT_EQ(problem_of("node z zeros () -> (%z float32 (2)) {shape=[2], dtype=\"f\"} forward\n")
                .substr(0, 14),
            "node z: dtype:");
}

TEST(VerifyTest, AStateIsNotReadAfterItsWrite) {
  Graph graph = good();
  std::swap(graph.nodes[1], graph.nodes[2]);
  EXPECT_NE(verify(graph).value_or("right"), "right");
  EXPECT_EQ(problem_of("state %w float32 (2) weight\n"
                       "node w/write state_write (%w) -> () {} writes=w update\n"
                       "node y product (%w, %w) -> (%y float32 (2)) {} forward\n"),
            "node y: state variable w is read after its write");
}

TEST(VerifyTest, WritesBelongToStateWrites) {
  EXPECT_EQ(problem_of("state %w float32 (2) weight\n"
                       "node y product (%w, %w) -> (%y float32 (2)) {} writes=w forward\n"),
            "node y: only a state write writes a state variable");
  EXPECT_EQ(problem_of("state %w float32 (2) weight\n"
                       "node n state_write (%w) -> () {} update\n"),
            "node n: it writes no state variable");
  EXPECT_EQ(problem_of("input %x float32 (3)\nstate %w float32 (2) weight\n"
                       "node n state_write (%x) -> () {} writes=w update\n"),
            "node n: expected a value of state variable w's type, float32 (2)");
}

TEST(VerifyTest, StatesHaveNoBatch) {
  EXPECT_EQ(problem_of("state w float32 (B, 2) weight\n"),
            "state variable w: expected constant positive dimensions, received (B, 2)");
}

TEST(VerifyTest, OrderAndNamesOfHandMadeGraphs) {
  Graph graph = good();
  graph.values[1].name = "x";
  EXPECT_EQ(verify(graph), "two values are called x");

  graph = good();
  graph.nodes[0].inputs[0] = graph.nodes[1].outputs[0];
  EXPECT_EQ(verify(graph), "node y: %dw is read before it is made");

  graph = good();
  graph.nodes[0].inputs[0] = ValueId(size_t{99});
  EXPECT_EQ(verify(graph), "node y: an operand is no value");

  graph = good();
  graph.outputs.push_back(ValueId());
  EXPECT_EQ(verify(graph), "an output is no value");

  graph = good();
  graph.values[0].input = 1;
  EXPECT_EQ(verify(graph), "value %x: it is not the input that it says it is");
}

TEST(VerifyTest, ProgramsAgreeOnTheirStates) {
  ProgramSet set;
  set.programs.push_back({"train", good(), 8});
  set.programs.push_back(
      {"predict", parse_graph("state %w float32 (4, 3) weight\n", test_registry()), 8});
  EXPECT_EQ(verify(set),
            "program predict: state variable w has another type or role than in an earlier "
            "program: float32 (4, 3) for float32 (4, 2)");
  set.programs.pop_back();
  EXPECT_EQ(verify(set), std::nullopt);
  set.programs.push_back({"train", good(), 8});
  EXPECT_EQ(verify(set), "program train: there are two of that name");
}

}  // namespace
}  // namespace plimsoll::graph
