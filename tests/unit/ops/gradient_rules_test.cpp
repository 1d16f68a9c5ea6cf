// Which gradient nodes a rule adds, where numbers cannot tell.

#include <gtest/gtest.h>

#include "graph/autodiff.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "ops/training/losses.h"
#include "unit/base/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Graph;
using graph::GraphBuilder;
using graph::ValueId;

Dim of(int64_t n) { return Dim::constant(n); }

int count(const Graph& graph, std::string_view op) {
  int found = 0;
  for (const graph::Node& node : graph.nodes) found += node.op->name() == op ? 1 : 0;
  return found;
}

class GradientRules : public testing::Test {
 protected:
  ValueId input(const std::string& name, Shape shape, DType dtype = DType::kFloat32) {
    return builder_.input(name, {dtype, std::move(shape)});
  }
  std::vector<ValueId> gradients(ValueId value, std::vector<ValueId> targets) {
    const ValueId loss = builder_.call("batch_sum", "loss", {value});
    return graph::add_gradients(builder_, loss, targets);
  }
  GraphBuilder builder_{registry()};
};

TEST_F(GradientRules, FirstLayerGetsNoInputGradient) {
  const ValueId x = input("x", {Dim::batch(), of(4)});
  const ValueId w = input("w", {of(4), of(3)});
  gradients(builder_.call("dense", "dense", {x, w}, {{"units", 3}}), {w});
  EXPECT_EQ(count(builder_.graph(), "dense_grad_input"), 0);
  EXPECT_EQ(count(builder_.graph(), "dense_grad_kernel"), 1);
}

TEST_F(GradientRules, ReluKeepsItsOutputAndGeluItsInput) {
  for (const auto& [kind, from_output] :
       {std::pair<std::string, bool>{"relu", true}, {"gelu", false}, {"linear", false}}) {
    GraphBuilder builder(registry());
    const ValueId x = builder.input("x", {DType::kFloat32, {Dim::batch(), of(4)}});
    const ValueId y = builder.call("activation", "act", {x}, {{"kind", kind}});
    const ValueId loss = builder.call("batch_sum", "loss", {y});
    graph::add_gradients(builder, loss, std::vector<ValueId>{x});
    const graph::NodeId grad = find_node(builder.graph(), "act/grad");
    EXPECT_EQ(grad.valid(), kind != "linear");
    if (!grad.valid()) continue;
    EXPECT_EQ(builder.graph().node(grad).inputs[1], from_output ? y : x);
  }
}

TEST_F(GradientRules, SparseCrossentropyHasOneGradientNodeThatCanBeCutAlongTheClasses) {
  const ValueId x = input("x", {Dim::batch(), of(10)});
  const ValueId labels = input("labels", {Dim::batch()}, DType::kInt64);
  const std::vector<ValueId> found =
      gradients(sparse_crossentropy_from_logits(builder_, "xent", x, labels), {x});
  const Graph& graph = builder_.graph();
  ASSERT_TRUE(found[0].valid());
  const graph::NodeId node = graph.value(found[0]).producer;
  EXPECT_EQ(graph.node(node).op->name(), "softmax_crossentropy_grad");
  EXPECT_EQ(count(graph, "accumulate"), 0);
  const auto axes = axes_of(graph, node);
  ASSERT_EQ(axes.size(), 2u);
  EXPECT_EQ(axes[1].name, "classes");
  EXPECT_EQ(axes[1].kind, graph::AxisKind::kMap);
  EXPECT_EQ(axes_of(graph, find_node(graph, "xent/log_sum_exp"))[1].kind, graph::AxisKind::kReduce);
}

TEST_F(GradientRules, APickedLogitWithAnotherReaderIsRefused) {
  const ValueId x = input("x", {Dim::batch(), of(10)});
  const ValueId labels = input("labels", {Dim::batch()}, DType::kInt64);
  const ValueId picked = builder_.call("pick_class", "picked", {x, labels});
  test::expect_error(ErrorKind::kModel, "sparse_crossentropy as the only reader",
                     [&] { gradients(picked, {x}); });
}

TEST_F(GradientRules, TargetsOfALossHaveNone) {
  const ValueId x = input("x", {Dim::batch(), of(10)});
  const ValueId t = input("t", {Dim::batch(), of(10)});
  test::expect_error(ErrorKind::kModel, "the targets of a loss", [&] {
    gradients(builder_.call("mean_squared_error", "mse", {x, t}), {t});
  });
}

TEST_F(GradientRules, FrozenBatchNormalizationKeepsNoSums) {
  const ValueId x = input("x", {Dim::batch(), of(10)});
  const ValueId c = input("c", {of(10)});
  gradients(builder_.call("batch_norm_inference", "bn", {x, c, c, c, c}, {{"epsilon", 1e-3}}), {x});
  EXPECT_EQ(count(builder_.graph(), "batch_norm_inference_sums"), 0);
  EXPECT_EQ(count(builder_.graph(), "batch_norm_inference_grad"), 1);
}

}  // namespace
}  // namespace plimsoll::ops
