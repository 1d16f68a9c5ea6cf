#include "graph/autodiff.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "unit/graph/test_ops.h"

namespace plimsoll::graph {
namespace {

using testing::test_registry;

constexpr std::string_view kRule = "---\n";

// "# gradients of %loss: %w %b" names the loss and the targets of a golden case.
struct Question {
  std::string loss;
  std::vector<std::string> targets;
};

Question question_of(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  Question question;
  while (std::getline(lines, line)) {
    const std::string head = "# gradients of %";
    if (!line.starts_with(head)) continue;
    std::istringstream words(line.substr(head.size()));
    words >> question.loss;
    question.loss.pop_back();
    for (std::string word; words >> word;) question.targets.push_back(word.substr(1));
  }
  return question;
}

std::string backward_of(const std::string& text) {
  const Question question = question_of(text);
  GraphBuilder builder(test_registry(), parse_graph(text, test_registry()));
  const size_t forward_count = print(builder.graph()).size();
  std::vector<ValueId> targets;
  for (const std::string& name : question.targets) {
    targets.push_back(find_value(builder.graph(), name));
  }
  const std::vector<ValueId> gradients =
      add_gradients(builder, find_value(builder.graph(), question.loss), targets);
  const Graph graph = builder.finish();
  EXPECT_EQ(verify(graph), std::nullopt);
  std::string answer = print(graph).substr(forward_count);
  for (size_t i = 0; i < targets.size(); ++i) {
    answer += "# d%" + question.targets[i] + " = " +
              (gradients[i].valid() ? "%" + graph.value(gradients[i]).name : "none") + "\n";
  }
  return answer;
}

// tests/golden/autodiff/*.txt: forward text, a rule, the backward nodes that it must give.
// PLIMSOLL_UPDATE_GOLDEN=1 rewrites what stands below the rule.
TEST(AutodiffGoldenTest, BackwardIsAsWritten) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("golden/autodiff")) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  EXPECT_GE(paths.size(), 5u);
  for (const auto& path : paths) {
    const std::string text = read_text_file(path.string(), 1 << 20);
    const size_t rule = text.find(kRule);
    ASSERT_NE(rule, std::string::npos) << path;
    const std::string forward = text.substr(0, rule);
    const std::string backward = backward_of(forward);
    if (std::getenv("PLIMSOLL_UPDATE_GOLDEN") != nullptr) {
      write_text_file(path.string(), forward + std::string(kRule) + backward);
      continue;
    }
    EXPECT_EQ(backward, text.substr(rule + kRule.size())) << path;
  }
}

Graph two_layers(std::string_view second) {
  return parse_graph(
      "input %x float32 (B, 4)\n"
      "state %w float32 (4, 4) weight trainable\n"
      "node a matmul (%x, %w) -> (%a float32 (B, 4)) {} layer=first forward\n"
      "node b " +
          std::string(second) +
          " (%a) -> (%b float32 (B, 4)) {} layer=second forward\n"
          "node loss total (%b) -> (%loss float32 ()) {} loss\n",
      test_registry());
}

TEST(AutodiffTest, AnOperatorWithoutGradientIsNamed) {
  GraphBuilder builder(test_registry(), two_layers("round"));
  const std::vector<ValueId> targets = {find_value(builder.graph(), "w")};
  try {
    add_gradients(builder, find_value(builder.graph(), "loss"), targets);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    EXPECT_TRUE(error.message().starts_with("[second] gradient of b (round): expected an operator"))
        << error.message();
  }
}

TEST(AutodiffTest, NothingIsAddedWhereNobodyAsks) {
  GraphBuilder builder(test_registry(), two_layers("round"));
  const size_t before = builder.graph().nodes.size();
  const StateId frozen = builder.state(
      {.name = "v", .type = {DType::kFloat32, Shape({Dim::constant(4)})}, .layer = ""});
  const std::vector<ValueId> targets = {builder.read(frozen)};
  const std::vector<ValueId> gradients =
      add_gradients(builder, find_value(builder.graph(), "loss"), targets);
  EXPECT_FALSE(gradients[0].valid());
  EXPECT_EQ(builder.graph().nodes.size(), before);
}

TEST(AutodiffTest, LeavesLayerAndStageAsTheyWere) {
  GraphBuilder builder(test_registry(), two_layers("halves"));
  builder.set_layer("outer");
  builder.set_stage(Stage::kMetric);
  const ValueId x = builder.input("y", {DType::kFloat32, Shape({Dim::batch()})});
  const ValueId loss = builder.call("total", "t", {x});
  add_gradients(builder, loss, std::vector<ValueId>{x});
  EXPECT_EQ(builder.layer(), "outer");
  EXPECT_EQ(builder.stage(), Stage::kMetric);
  EXPECT_EQ(builder.graph().nodes.back().stage, Stage::kBackward);
}

}  // namespace
}  // namespace plimsoll::graph
