// Which nodes are merged, and which must not be.

#include "ops/fuse/fuse.h"

#include <gtest/gtest.h>

#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/registry.h"
#include "ops/training/losses.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::Graph;
using graph::GraphBuilder;
using graph::NodeId;
using graph::ValueId;

constexpr Offers kAll{.conv2d_bias = true,
                      .conv2d_relu = true,
                      .dense_bias = true,
                      .dense_relu = true,
                      .conv2d_max_pool = true,
                      .dense_crossentropy = true,
                      .kernel_gradient_bias = true};

Dim of(int64_t n) { return Dim::constant(n); }

// Lines of the printed graph that hold this operator.
int count(const Graph& graph, const std::string& op) {
  const std::string text = print(graph);
  int found = 0;
  for (size_t at = text.find(" " + op + " ("); at != std::string::npos;
       at = text.find(" " + op + " (", at + 1)) {
    ++found;
  }
  return found;
}

Graph fused(const Graph& graph, const Offers& offers = kAll) {
  Graph result = fuse(graph, registry(), offers, 1);
  EXPECT_EQ(graph::verify(result).value_or(""), "");
  EXPECT_EQ(graph::parse_graph(print(result), registry()), result);
  return result;
}

Attributes conv_attributes() {
  return {{"filters", 4},
          {"kernel_size", std::vector<int64_t>{3, 3}},
          {"strides", std::vector<int64_t>{1, 1}},
          {"padding", std::vector<int64_t>{1, 1, 1, 1}},
          {"dilation_rate", std::vector<int64_t>{1, 1}},
          {"groups", 1}};
}

class Fuse : public testing::Test {
 protected:
  ValueId weight(const std::string& name, Shape shape) {
    return builder_.read(builder_.state(
        {.name = name, .type = {DType::kFloat32, std::move(shape)}, .trainable = true}));
  }
  // conv2d + bias_add; relu is left to the test.
  ValueId conv(ValueId x) {
    const Dim channels = builder_.type(x).shape[3];
    w_ = weight("w", {of(3), of(3), channels, of(4)});
    b_ = weight("b", {of(4)});
    conv_ = builder_.call("conv2d", "conv", {x, w_}, conv_attributes());
    return builder_.call("bias_add", "bias", {conv_, b_});
  }
  ValueId dense(ValueId x) {
    w_ = weight("w", {builder_.type(x).shape[1], of(4)});
    b_ = weight("b", {of(4)});
    conv_ = builder_.call("dense", "dense", {x, w_}, {{"units", 4}});
    return builder_.call("bias_add", "bias", {conv_, b_});
  }
  ValueId relu(ValueId x, Attributes attributes = {}) {
    attributes.set("kind", "relu");
    return builder_.call("activation", "relu", {x}, attributes);
  }
  ValueId image() {
    return builder_.input("x", {DType::kFloat32, {Dim::batch(), of(6), of(6), of(3)}});
  }
  ValueId rows() { return builder_.input("x", {DType::kFloat32, {Dim::batch(), of(5)}}); }

  GraphBuilder builder_{registry()};
  ValueId w_;
  ValueId b_;
  ValueId conv_;
};

TEST_F(Fuse, ConvolutionBiasAndReluBecomeOneNodeNamedAfterTheLast) {
  builder_.output(relu(conv(image())));
  const Graph graph = fused(builder_.finish());
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].name, "relu");
  EXPECT_EQ(graph.nodes[0].op->name(), "conv2d");
  EXPECT_TRUE(graph.nodes[0].attributes.get_bool("use_bias"));
  EXPECT_EQ(graph.nodes[0].attributes.get_string("activation"), "relu");
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "relu");
  EXPECT_EQ(graph.nodes[0].inputs.size(), 3u);
}

TEST_F(Fuse, DenseBiasAndRelu) {
  builder_.output(relu(dense(rows())));
  EXPECT_EQ(fused(builder_.graph()).nodes.size(), 1u);
  EXPECT_EQ(fused(builder_.graph(), {.dense_bias = true}).nodes.size(), 2u);
  EXPECT_EQ(fused(builder_.graph(), {.conv2d_bias = true, .conv2d_relu = true}).nodes.size(), 3u);
}

TEST_F(Fuse, NothingOfferedNothingChanged) {
  builder_.output(relu(conv(image())));
  const Graph graph = builder_.finish();
  EXPECT_EQ(fused(graph, {}), graph);
}

TEST_F(Fuse, ReluWithoutBias) {
  const ValueId x = image();
  const ValueId w = weight("w", {of(3), of(3), of(3), of(4)});
  builder_.output(relu(builder_.call("conv2d", "conv", {x, w}, conv_attributes())));
  const Graph graph = fused(builder_.finish());
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].inputs.size(), 2u);
  EXPECT_FALSE(graph.nodes[0].attributes.get_bool("use_bias", false));
}

TEST_F(Fuse, MustNotFireWhereAValueInBetweenHasAnotherReader) {
  const ValueId biased = conv(image());
  builder_.output(relu(biased));
  builder_.output(
      builder_.call("scale_shift", "reader", {conv_}, {{"scale", 2.0}, {"offset", 0.0}}));
  const Graph graph = fused(builder_.graph());
  EXPECT_EQ(count(graph, "conv2d"), 1);
  EXPECT_EQ(count(graph, "bias_add"), 1);
  EXPECT_EQ(count(graph, "activation"), 1);
}

TEST_F(Fuse, MustNotFireOnReluWhereTheBiasedValueHasAnotherReader) {
  const ValueId biased = conv(image());
  builder_.output(relu(biased));
  builder_.output(
      builder_.call("scale_shift", "reader", {biased}, {{"scale", 2.0}, {"offset", 0.0}}));
  const Graph graph = fused(builder_.graph());
  EXPECT_EQ(count(graph, "bias_add"), 0);
  EXPECT_EQ(count(graph, "activation"), 1);
}

TEST_F(Fuse, MustNotFireWhereAValueInBetweenIsAnOutput) {
  const ValueId biased = conv(image());
  builder_.output(biased);
  builder_.output(relu(biased));
  const Graph graph = fused(builder_.graph());
  EXPECT_EQ(count(graph, "bias_add"), 0);
  EXPECT_EQ(count(graph, "activation"), 1);
}

TEST_F(Fuse, MustNotFireOnOtherActivations) {
  const ValueId biased = conv(image());
  builder_.output(relu(biased, {{"negative_slope", 0.1}}));
  EXPECT_EQ(count(fused(builder_.graph()), "activation"), 1);
}

TEST_F(Fuse, MustNotFireWhereTheOnlyReaderReadsTwice) {
  const ValueId y = dense(rows());
  builder_.output(builder_.call("multiply", "square", {y, y}));
  const Graph graph = fused(builder_.graph());
  EXPECT_EQ(count(graph, "multiply"), 1);
  EXPECT_EQ(count(graph, "bias_add"), 0);
}

// The gradients of kernel and bias, in a whole training graph.
TEST_F(Fuse, GradientsOfKernelAndBiasBecomeOneNode) {
  const ValueId y = relu(conv(image()));
  const ValueId loss = builder_.call("batch_sum", "loss", {y});
  const std::vector<ValueId> gradients =
      graph::add_gradients(builder_, loss, std::vector<ValueId>{w_, b_});
  builder_.output(gradients[0]);
  builder_.output(gradients[1]);
  const Graph before = builder_.finish();
  EXPECT_EQ(count(before, "bias_grad"), 1);
  const Graph graph = fused(before);
  EXPECT_EQ(count(graph, "bias_grad"), 0);
  EXPECT_EQ(count(graph, "conv2d_grad_kernel"), 1);
  EXPECT_EQ(count(graph, "conv2d"), 1);
  EXPECT_EQ(graph.value(graph.outputs[0]).name, before.value(before.outputs[0]).name);
  EXPECT_EQ(graph.value(graph.outputs[1]).name, before.value(before.outputs[1]).name);
  EXPECT_EQ(graph.value(graph.outputs[0]).producer, graph.value(graph.outputs[1]).producer);
}

TEST_F(Fuse, GradientsStayApartWhereOneIsNotWanted) {
  const ValueId loss = builder_.call("batch_sum", "loss", {relu(conv(image()))});
  const std::vector<ValueId> gradients =
      graph::add_gradients(builder_, loss, std::vector<ValueId>{b_});
  builder_.output(gradients[0]);
  const Graph graph = fused(builder_.finish());
  EXPECT_EQ(count(graph, "bias_grad"), 1);
  EXPECT_EQ(count(graph, "conv2d_grad_kernel"), 0);
}

class FusePool : public Fuse {
 protected:
  ValueId pool(ValueId x, int64_t stride = 2) {
    const graph::NodeId node = builder_.add("max_pool2d", "pool", {x},
                                            {{"pool_size", std::vector<int64_t>{2, 2}},
                                             {"strides", std::vector<int64_t>{stride, stride}},
                                             {"padding", std::vector<int64_t>{0, 0, 0, 0}}});
    return builder_.graph().node(node).outputs[0];
  }
  Graph training(ValueId y, const std::vector<ValueId>& targets) {
    const ValueId loss = builder_.call("batch_sum", "loss", {y});
    for (ValueId gradient : graph::add_gradients(builder_, loss, targets)) {
      builder_.output(gradient);
    }
    return builder_.finish();
  }
};

TEST_F(FusePool, ForwardAndGradientsSkipTheFullSize) {
  const ValueId x = image();
  const ValueId y = pool(relu(conv(x)));
  const Graph before = training(y, {x, w_, b_});
  const Graph graph = fused(before);
  EXPECT_EQ(count(graph, "conv2d_pool"), 1);
  EXPECT_EQ(count(graph, "conv2d_pool_grad_kernel"), 1);
  EXPECT_EQ(count(graph, "conv2d_pool_grad_input"), 1);
  for (const char* gone : {"conv2d", "bias_add", "activation", "max_pool2d", "max_pool2d_grad",
                           "activation_grad", "bias_grad", "conv2d_grad_kernel"}) {
    EXPECT_EQ(count(graph, gone), 0) << gone;
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(graph.value(graph.outputs[i]).name, before.value(before.outputs[i]).name);
  }
  EXPECT_NE(find_node(graph, "pool"), NodeId());
}

TEST_F(FusePool, WithoutGradients) {
  builder_.output(pool(relu(conv(image()))));
  const Graph graph = fused(builder_.finish());
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op->name(), "conv2d_pool");
}

TEST_F(FusePool, MustNotFireOnWindowsThatOverlap) {
  const ValueId y = pool(relu(conv(image())), 1);
  const Graph graph = fused(training(y, {w_}));
  EXPECT_EQ(count(graph, "conv2d_pool"), 0);
  EXPECT_EQ(count(graph, "max_pool2d"), 1);
}

TEST_F(FusePool, MustNotFireWhereTheFullResultHasAnotherReader) {
  const ValueId full = relu(conv(image()));
  const ValueId other = builder_.call("batch_sum", "other", {full});
  const ValueId loss = builder_.call("batch_sum", "sum", {pool(full)});
  const ValueId both = builder_.call("add", "both", {other, loss});
  const Graph graph = fused(training(both, {w_}));
  EXPECT_EQ(count(graph, "conv2d_pool"), 0);
  EXPECT_EQ(count(graph, "max_pool2d"), 1);
  EXPECT_EQ(count(graph, "max_pool2d_grad"), 1);
}

TEST_F(FusePool, MustNotFireOnOtherActivationsInBetween) {
  const ValueId y = pool(relu(conv(image()), {{"negative_slope", 0.1}}));
  EXPECT_EQ(count(fused(training(y, {w_})), "conv2d_pool"), 0);
}

TEST_F(FusePool, MustNotFireUnlessOffered) {
  Offers offers = kAll;
  offers.conv2d_max_pool = false;
  builder_.output(pool(relu(conv(image()))));
  EXPECT_EQ(count(fused(builder_.finish(), offers), "conv2d_pool"), 0);
}

// A dense layer and its loss with gradients; a sample's logits are a little more than 16 MiB
// with 66,000 classes.
Graph classifier(int64_t classes, bool bias, bool accuracy = false) {
  GraphBuilder b(registry());
  const auto weight = [&](const std::string& name, Shape shape) {
    return b.read(b.state({.name = name, .type = {DType::kFloat32, std::move(shape)}}));
  };
  const ValueId x = b.input("x", {DType::kFloat32, {Dim::batch(), of(64), of(3)}});
  const ValueId labels = b.input("labels", {DType::kInt64, {Dim::batch(), of(64)}});
  std::vector<ValueId> targets = {x, weight("w", {of(3), of(classes)})};
  ValueId y = b.call("dense", "dense", targets, {{"units", classes}});
  if (bias) {
    targets.push_back(weight("b", {of(classes)}));
    y = b.call("bias_add", "bias", {y, targets.back()});
  }
  const ValueId loss = sparse_crossentropy_from_logits(b, "loss", y, labels);
  if (accuracy) b.output(b.call("sparse_categorical_accuracy", "accuracy", {labels, y}));
  const ValueId sum = b.call("batch_sum", "sum", {loss});
  b.output(sum);
  for (ValueId gradient : graph::add_gradients(b, sum, targets)) b.output(gradient);
  return b.finish();
}

TEST_F(Fuse, ManyLogitsAndTheirGradientsAreNeverThere) {
  for (bool bias : {false, true}) {
    const Graph separate = classifier(66000, bias);
    const Graph graph = fused(separate);
    EXPECT_EQ(count(graph, "dense_crossentropy"), 1);
    EXPECT_EQ(count(graph, "dense_crossentropy_grad"), 1);
    for (const char* gone : {"dense", "log_sum_exp", "pick_class", "softmax_crossentropy_grad",
                             "dense_grad_kernel", "dense_grad_input", "bias_grad"}) {
      EXPECT_EQ(count(graph, gone), 0) << gone;
    }
    ASSERT_EQ(graph.outputs.size(), separate.outputs.size());
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      EXPECT_EQ(graph.value(graph.outputs[i]).name, separate.value(separate.outputs[i]).name);
    }
  }
}

TEST_F(Fuse, MustNotFireOnFewLogitsOrOtherReadersOfThem) {
  EXPECT_EQ(count(fused(classifier(65000, true)), "dense_crossentropy"), 0);
  EXPECT_EQ(count(fused(classifier(66000, true, true)), "dense_crossentropy"), 0);
  Offers offers = kAll;
  offers.dense_crossentropy = false;
  EXPECT_EQ(count(fused(classifier(66000, true), offers), "dense_crossentropy"), 0);
}

TEST_F(Fuse, MustNotFireOnGradientsOfDifferentValues) {
  const ValueId x = rows();
  const ValueId dy = builder_.input("dy", {DType::kFloat32, {Dim::batch(), of(4)}});
  const ValueId other = builder_.input("other", {DType::kFloat32, {Dim::batch(), of(4)}});
  builder_.output(builder_.call("dense_grad_kernel", "dw", {x, dy}));
  builder_.output(builder_.call("bias_grad", "db", {other}));
  EXPECT_EQ(fused(builder_.graph()).nodes.size(), 2u);
}

TEST_F(Fuse, StatesAndTheirWritesSurvive) {
  const graph::StateId state = builder_.state(
      {.name = "total", .type = {DType::kFloat32, Shape()}, .role = graph::StateRole::kMetric});
  const ValueId old = builder_.read(state);
  builder_.set_layer("head");
  const ValueId loss = builder_.call("batch_sum", "loss", {relu(dense(rows()))});
  builder_.write(state, builder_.call("add", "sum", {old, loss}));
  const Graph before = builder_.finish();
  const Graph graph = fused(before);
  ASSERT_EQ(graph.states.size(), before.states.size());
  const graph::StateVariable& total = graph.state(graph::find_state(graph, "total"));
  ASSERT_TRUE(total.write.valid());
  EXPECT_EQ(graph.node(total.write).name, "total/write");
  EXPECT_EQ(graph.node(find_node(graph, "relu")).layer, "head");
}

// --- packs

PackOffers pack_dense_weights(const std::string& layout) {
  return [layout](const Graph& graph, NodeId node) -> std::vector<PackOffer> {
    const std::string_view op = graph.node(node).op->name();
    if (op == "dense") return {{1, layout, Bytes(80)}};
    if (op == "dense_grad_input") return {{1, layout + "_transposed", Bytes(80)}};
    return {};
  };
}

TEST_F(Fuse, PacksStandInFrontOfTheirFirstReader) {
  builder_.output(dense(rows()));
  const Graph graph = insert_packs(builder_.graph(), registry(), pack_dense_weights("blocked"));
  EXPECT_EQ(graph::verify(graph).value_or(""), "");
  ASSERT_EQ(count(graph, "pack"), 1);
  EXPECT_EQ(graph.nodes[0].op->name(), "pack");
  EXPECT_EQ(graph.nodes[0].name, "w/pack");
  EXPECT_EQ(graph.nodes[0].attributes.get_string("layout"), "blocked");
  EXPECT_EQ(graph.nodes[1].inputs[1], graph.nodes[0].outputs[0]);
}

TEST_F(Fuse, EqualLayoutsOfOneValueAreOnePack) {
  const ValueId first = builder_.input("x", {DType::kFloat32, {Dim::batch(), of(5)}});
  const ValueId second = builder_.input("y", {DType::kFloat32, {Dim::batch(), of(5)}});
  const ValueId w = weight("w", {of(5), of(4)});
  const ValueId v = weight("v", {of(5), of(4)});
  for (ValueId x : {first, second}) {
    builder_.output(builder_.call("dense", "dense", {x, w}, {{"units", 4}}));
  }
  builder_.output(builder_.call("dense", "dense", {first, v}, {{"units", 4}}));
  const Graph graph = insert_packs(builder_.graph(), registry(), pack_dense_weights("blocked"));
  EXPECT_EQ(count(graph, "pack"), 2);
}

TEST_F(Fuse, DifferentLayoutsOfOneValueAreTwoPacks) {
  const ValueId x = weight("x", {of(7), of(5)});
  const ValueId w = weight("w", {of(5), of(4)});
  const ValueId y = builder_.call("dense", "dense", {x, w}, {{"units", 4}});
  builder_.output(builder_.call("dense_grad_input", "dx", {y, w}, {{"input_dim", 5}}));
  const Graph graph = insert_packs(builder_.graph(), registry(), pack_dense_weights("blocked"));
  EXPECT_EQ(graph::verify(graph).value_or(""), "");
  EXPECT_EQ(count(graph, "pack"), 2);
  EXPECT_TRUE(find_node(graph, "w/pack_1").valid());
}

TEST_F(Fuse, NoOffersNoPacks) {
  builder_.output(dense(rows()));
  const Graph before = builder_.finish();
  const Graph graph = insert_packs(before, registry(),
                                   [](const Graph&, NodeId) { return std::vector<PackOffer>(); });
  EXPECT_EQ(graph, before);
}

}  // namespace
}  // namespace plimsoll::ops
