#include "graph/text.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/verify.h"
#include "unit/graph/test_ops.h"

namespace plimsoll::graph {
namespace {

using testing::test_registry;

constexpr std::string_view kStep =
    "input %x float32 (B, 4)\n"
    "state %w float32 (4, 2) weight trainable layer=dense\n"
    "node dense matmul (%x, %w) -> (%dense float32 (B, 2)) {} layer=dense forward\n"
    "node loss total (%dense) -> (%loss float32 ()) {} loss\n"
    "node dw matmul_grad_w (%x, %dense) -> (%dw float32 (4, 2)) {} backward\n"
    "node w/write state_write (%dw) -> () {} writes=w update\n"
    "output %loss\n";

std::string error_of(std::string_view text) {
  try {
    (void)parse_programs(text, test_registry());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(GraphTextTest, RoundTripsAStep) {
  const Graph graph = parse_graph(kStep, test_registry());
  EXPECT_EQ(verify(graph), std::nullopt);
  EXPECT_EQ(print(graph), kStep);
  EXPECT_EQ(parse_graph(print(graph), test_registry()), graph);
}

TEST(GraphTextTest, RoundTripsWhatTheBuilderMakes) {
  GraphBuilder builder(test_registry());
  const ValueType pair{DType::kFloat32, Shape({Dim::constant(2)})};
  const StateId late = builder.state({.name = "late read", .type = pair, .layer = ""});
  const StateId unread =
      builder.state({.name = "unread", .type = pair, .role = StateRole::kCounter, .layer = ""});
  const ValueId x = builder.input("late read", pair);
  const NodeId node = builder.add("product", "a \"b\" \\", {x, x},
                                  {{"n", -3},
                                   {"x", 0.1},
                                   {"whole", 2.0},
                                   {"tiny", 1e-300},
                                   {"inf", -std::numeric_limits<double>::infinity()},
                                   {"text", "two\nlines, \"quoted\""},
                                   {"list", std::vector<int64_t>{1, -2}},
                                   {"none", std::vector<int64_t>{}},
                                   {"flag", false}});
  builder.read(late);
  builder.write(unread, builder.graph().node(node).outputs[0]);
  builder.state({.name = "alone", .type = pair, .layer = "l"});
  const Graph graph = builder.finish();
  EXPECT_EQ(verify(graph), std::nullopt);
  EXPECT_EQ(parse_graph(print(graph), test_registry()), graph) << print(graph);
}

TEST(GraphTextTest, RoundTripsPrograms) {
  ProgramSet set;
  set.programs.push_back({"train", parse_graph(kStep, test_registry()), 128});
  set.programs.push_back({"train_tail", parse_graph(kStep, test_registry()), 104});
  EXPECT_EQ(parse_programs(print(set), test_registry()), set);
  EXPECT_EQ(print(set).substr(0, 24), "program train batch 128\n");
}

TEST(GraphTextTest, CommentsAndBlankLinesMeanNothing) {
  const std::string text = "# a step\n\n" + std::string(kStep) + "   \n";
  EXPECT_EQ(parse_graph(text, test_registry()), parse_graph(kStep, test_registry()));
}

TEST(GraphTextTest, ErrorsNameLineExpectedReceived) {
  EXPECT_EQ(error_of("program p batch 2\ninptu %x float32 (B)\n"),
            "graph text, line 2: expected input, state, read, node, output or program, received "
            "\"inptu\". Did you mean \"input\"?");
  EXPECT_EQ(error_of("program p batch 2\ninput %x float32 (B)\noutput %some\n"),
            "graph text, line 3: expected a value that stands above, received %some.");
  EXPECT_EQ(error_of("program p batch 2\ninput %x float32 (B)\ninput %x float32 (B)\n"),
            "graph text, line 3: expected a new name, received %x, which is taken.");
  EXPECT_EQ(error_of("input %x float32 (B)\n"),
            "graph text, line 1: expected a program line first.");
  EXPECT_NE(error_of("program p batch 2\ninput %x float23 (B)\n").find("Did you mean \"float32\""),
            std::string::npos);
  EXPECT_NE(error_of("program p batch 2\nnode n matmull () -> () {} forward\n")
                .find("Did you mean \"matmul\""),
            std::string::npos);
  EXPECT_EQ(error_of("program p batch 2\ninput %x float32 (B) more\n"),
            "graph text, line 2: expected the end of the line, received \"more\".");
}

TEST(GraphTextTest, AbsurdSizesAreRefused) {
  EXPECT_NE(error_of("program p batch 99999999999\n").find("batch size"), std::string::npos);
  EXPECT_NE(error_of("program p batch 1\ninput %x float32 (B, 99999999999999999)\n").find("line 2"),
            std::string::npos);
  EXPECT_NE(
      error_of("program p batch 1\ninput %x float32 (4294967296, 4294967296)\n").find("line 2"),
      std::string::npos);
  EXPECT_NE(error_of("program p batch 1\ninput %x float32 (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)\n")
                .find("dimensions"),
            std::string::npos);
}

TEST(GraphTextTest, EveryCutOfATextIsRefusedOrParsed) {
  const std::string text = "program p batch 2\n" + std::string(kStep);
  for (size_t length = 0; length < text.size(); ++length) {
    const std::string message = error_of(text.substr(0, length));
    EXPECT_TRUE(message == "nothing was thrown" || message.starts_with("graph text, line "))
        << message;
  }
}

TEST(ProgramTest, StatesAreListedOnceWithoutPositions) {
  ProgramSet set;
  set.programs.push_back({"train", parse_graph(kStep, test_registry()), 8});
  set.programs.push_back(
      {"predict",
       parse_graph("state %v float32 (2) weight\nstate %w float32 (4, 2) weight trainable "
                   "layer=dense\n",
                   test_registry()),
       8});
  const std::vector<StateVariable> states = states_of(set);
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].name, "w");
  EXPECT_FALSE(states[0].incoming.valid());
  EXPECT_FALSE(states[0].write.valid());
  EXPECT_EQ(states[1].name, "v");
  EXPECT_EQ(find_program(set, "predict"), &set.programs[1]);
  EXPECT_EQ(find_program(set, "evaluate"), nullptr);
}

TEST(ProgramTest, TheFingerprintKnowsGraphsAndBatches) {
  ProgramSet set;
  set.programs.push_back({"train", parse_graph(kStep, test_registry()), 8});
  const uint64_t first = fingerprint(set);
  EXPECT_EQ(fingerprint(set), first);
  set.programs[0].batch = 9;
  EXPECT_NE(fingerprint(set), first);
  set.programs[0].batch = 8;
  set.programs[0].graph.nodes[0].attributes.set("k", 1);
  EXPECT_NE(fingerprint(set), first);
}

}  // namespace
}  // namespace plimsoll::graph
