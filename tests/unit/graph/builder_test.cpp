#include "graph/builder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/verify.h"
#include "unit/graph/test_ops.h"

namespace plimsoll::graph {
namespace {

using testing::test_registry;

ValueType row(int64_t n) { return {DType::kFloat32, Shape({Dim::batch(), Dim::constant(n)})}; }

StateVariable weight(std::string name, int64_t rows, int64_t columns) {
  return {.name = std::move(name),
          .type = {DType::kFloat32, Shape({Dim::constant(rows), Dim::constant(columns)})},
          .role = StateRole::kWeight,
          .layer = "",
          .trainable = true};
}

TEST(BuilderTest, MakesNamesUnique) {
  GraphBuilder builder(test_registry());
  const ValueId x = builder.input("x", row(4));
  const ValueId a = builder.call("product", "p", {x, x});
  const ValueId b = builder.call("product", "p", {a, x});
  const ValueId c = builder.call("product", "x", {b, b});
  const Graph& graph = builder.graph();
  EXPECT_EQ(graph.value(a).name, "p");
  EXPECT_EQ(graph.value(b).name, "p_1");
  EXPECT_EQ(graph.value(c).name, "x_1");
  EXPECT_EQ(graph.node(graph.value(c).producer).name, "x");
  EXPECT_EQ(verify(graph), std::nullopt);
}

TEST(BuilderTest, NamesFurtherOutputsByNumber) {
  GraphBuilder builder(test_registry());
  const NodeId node = builder.add("halves", "h", {builder.input("x", row(4))});
  const Graph graph = builder.finish();
  EXPECT_EQ(graph.value(graph.node(node).outputs[0]).name, "h");
  EXPECT_EQ(graph.value(graph.node(node).outputs[1]).name, "h:1");
}

TEST(BuilderTest, StampsLayerAndStage) {
  GraphBuilder builder(test_registry());
  builder.set_layer("dense");
  builder.set_stage(Stage::kLoss);
  const ValueId x = builder.input("x", row(4));
  builder.call("product", "p", {x, x});
  EXPECT_EQ(builder.graph().nodes[0].layer, "dense");
  EXPECT_EQ(builder.graph().nodes[0].stage, Stage::kLoss);
}

TEST(BuilderTest, AStateIsDeclaredReadAndWrittenOnce) {
  GraphBuilder builder(test_registry());
  const StateId w = builder.state(weight("w", 2, 2));
  EXPECT_EQ(builder.state(weight("w", 2, 2)), w);
  const ValueId incoming = builder.read(w);
  EXPECT_EQ(builder.read(w), incoming);
  const ValueId next = builder.call("product", "next", {incoming, incoming});
  const NodeId write = builder.write(w, next);
  EXPECT_EQ(builder.graph().node(write).writes, w);
  EXPECT_EQ(builder.graph().state(w).write, write);
  EXPECT_THROW(builder.write(w, next), Error);
  EXPECT_THROW(builder.read(w), Error);
  EXPECT_THROW(builder.state(weight("w", 3, 2)), Error);
  EXPECT_EQ(verify(builder.graph()), std::nullopt);
}

TEST(BuilderTest, ErrorsNameLayerAndNode) {
  GraphBuilder builder(test_registry());
  builder.set_layer("dense_3");
  const ValueId x = builder.input("x", row(4));
  const ValueId w = builder.read(builder.state(weight("w", 5, 2)));
  try {
    builder.call("matmul", "dense_3/matmul", {x, w});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    EXPECT_EQ(
        error.message(),
        "[dense_3] dense_3/matmul (matmul): expected other operands, received (B, 4) (5, 2).");
  }
  try {
    builder.call("matmull", "m", {x, w});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("Did you mean \"matmul\"?"), std::string::npos)
        << error.message();
  }
}

TEST(BuilderTest, GoesOnWithAnExistingGraph) {
  GraphBuilder first(test_registry());
  const ValueId x = first.input("x", row(4));
  first.call("product", "p", {x, x});
  GraphBuilder second(test_registry(), first.finish());
  const ValueId more = second.call("product", "p", {x, x});
  EXPECT_EQ(second.graph().value(more).name, "p_1");
  EXPECT_EQ(verify(second.graph()), std::nullopt);
}

TEST(OpTest, BatchAxesFollowTheRows) {
  GraphBuilder builder(test_registry());
  const ValueId four =
      builder.input("x", {DType::kFloat32, Shape({Dim::batch(4), Dim::constant(3)})});
  const ValueId y = builder.call("product", "p", {four, four});
  const std::vector<Axis> axes = axes_of(builder.graph(), builder.graph().value(y).producer);
  ASSERT_EQ(axes.size(), 1u);
  EXPECT_EQ(axes[0].kind, AxisKind::kMap);
  EXPECT_EQ(axes[0].outputs[0], (AxisUse{.dimension = 0, .stride = 4, .before = 0, .after = 3}));
  EXPECT_EQ(find_axis(axes, kBatchAxis), 0);
  EXPECT_EQ(find_axis(axes, "units"), -1);
}

TEST(OpTest, OperandsWithoutTheBatchHaveNoAxis) {
  GraphBuilder builder(test_registry());
  const ValueId w = builder.read(builder.state(weight("w", 2, 2)));
  const NodeId unbatched = builder.add("product", "p", {w, w});
  EXPECT_TRUE(axes_of(builder.graph(), unbatched).empty());
  const ValueId x = builder.input("x", row(2));
  const std::vector<Axis> axes =
      axes_of(builder.graph(), builder.add("matmul_grad_w", "g", {x, x}));
  ASSERT_EQ(axes.size(), 1u);
  EXPECT_EQ(axes[0].kind, AxisKind::kReduce);
  EXPECT_EQ(axes[0].outputs[0].dimension, -1);
}

}  // namespace
}  // namespace plimsoll::graph
