// attention: softmax(scale · q · kᵀ) · v by heads, never storing the scores; and its gradients.
//
//   attention        (q (B,T,H,K), k (B,S,H,K), v (B,S,H,V), masks…) → out (B,T,H,V),
//                    stats (B,T,H,2): the largest score of a row and Σ exp(score − largest)
//   attention_dot    (d out, out) → (B,T,H): Σ d out · out, which every row's gradient needs
//   attention_grad_query   (q, k, v, masks…, stats, d out, dot) → d q       sums over keys
//   attention_grad_keys    (q, k, v, masks…, stats, d out, dot) → d k, d v  sums over queries
//
// Scores are computed key block by key block under a running maximum, forward, and again from the
// stats, backward. The forward pass sees all keys of a query in one call; the gradients can be cut
// along both. Masks, each there if its attribute says so: `key_masked` (bool (B,S)),
// `query_masked` (bool (B,T)), `masked` (bool (B,T,S)); `causal` lets a query see the keys at its
// own place and before. A score that is masked becomes −0.7 × the largest float, as in Keras's
// dot_product_attention: a row without any key is the mean of all values, and no gradient goes
// through a masked score. `rate` and `site` drop out probabilities (dropout_mask.h, element of the
// global (B, H, T, S)).

#include "ops/attention.h"

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

void expect_at(const NodeTypes& node, int input, DType dtype, const Shape& shape) {
  if (input >= 0) expect_type(node, static_cast<size_t>(input), {dtype, shape});
}

AttentionOperands check(const NodeTypes& node, bool gradient) {
  const AttentionOperands operands = read_attention(node.attributes, gradient);
  const auto count = static_cast<size_t>(operands.count);
  expect_operands(node, count, count);
  expect_floating(node, 0);
  for (size_t i = 0; i < 3; ++i) expect_rank(node, i, 4, 4);
  const DType real = node.inputs[0].dtype;
  const Shape& q = node.inputs[0].shape;
  const Shape& k = node.inputs[1].shape;
  const Shape& v = node.inputs[2].shape;
  expect_type(node, 1, {real, {q[0], k[1], q[2], q[3]}});
  expect_type(node, 2, {real, {q[0], k[1], q[2], v[3]}});
  expect_at(node, operands.key_mask, DType::kBool, {q[0], k[1]});
  expect_at(node, operands.query_mask, DType::kBool, {q[0], q[1]});
  expect_at(node, operands.mask, DType::kBool, {q[0], q[1], k[1]});
  expect_at(node, operands.stats, real, {q[0], q[1], q[2], Dim::constant(2)});
  expect_at(node, operands.dout, real, {q[0], q[1], q[2], v[3]});
  expect_at(node, operands.dot, real, {q[0], q[1], q[2]});
  node.attributes.get_double("scale");
  const double rate = node.attributes.get_double("rate", 0.0);
  if (!(rate >= 0 && rate < 1)) refuse("a rate from 0 to below 1", std::to_string(rate), "");
  if (rate > 0) node.attributes.get_int("site");
  return operands;
}

// Dimension 1 of some operands, dimension 2 of the mask.
Axis length_axis(const NodeTypes& node, std::string_view name, AxisKind kind, int64_t extent,
                 std::initializer_list<int> inputs, std::initializer_list<size_t> outputs, int mask,
                 int mask_dimension) {
  Axis axis{.name = std::string(name), .kind = kind, .extent = Dim::constant(extent)};
  axis.inputs.resize(node.inputs.size());
  axis.outputs.resize(node.outputs.size());
  for (int input : inputs) {
    if (input >= 0) axis.inputs[static_cast<size_t>(input)].dimension = 1;
  }
  if (mask >= 0) axis.inputs[static_cast<size_t>(mask)].dimension = mask_dimension;
  for (size_t output : outputs) axis.outputs[output].dimension = 1;
  return axis;
}

// Scores and their products: four flops for each pair of places and element of a head.
double pair_flops(const NodeTypes& node, double products) {
  const Shape& q = node.inputs[0].shape;
  const Shape& k = node.inputs[1].shape;
  return products * static_cast<double>(q.elements_per_sample()) * static_cast<double>(k[1].count);
}

class Attention final : public NamedOp {
 public:
  Attention() : NamedOp("attention") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    check(node, false);
    const DType real = node.inputs[0].dtype;
    const Shape& q = node.inputs[0].shape;
    return {{real, {q[0], q[1], q[2], node.inputs[2].shape[3]}},
            {real, {q[0], q[1], q[2], Dim::constant(2)}}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    const AttentionOperands o = read_attention(node.attributes, false);
    std::vector<Axis> axes = graph::batch_map_axis(node);
    axes.push_back(length_axis(node, kQueriesAxis, AxisKind::kMap, node.inputs[0].shape[1].count,
                               {0, o.query_mask}, {0, 1}, o.mask, 1));
    return axes;
  }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const ValueId dout = context.output_gradient(0);
    const ValueId dot =
        builder.call("attention_dot", context.name("dot"), {dout, context.output(0)});
    std::vector<ValueId> operands;
    operands.reserve(static_cast<size_t>(context.input_count()) + 3);
    for (int i = 0; i < context.input_count(); ++i) operands.push_back(context.input(i));
    operands.insert(operands.end(), {context.output(1), dout, dot});
    if (context.wants(0)) {
      context.set_gradient(0, builder.call("attention_grad_query", context.name("grad_query"),
                                           operands, context.attributes()));
    }
    if (!context.wants(1) && !context.wants(2)) return;
    const graph::NodeId node = builder.add("attention_grad_keys", context.name("grad_keys"),
                                           operands, context.attributes());
    const std::vector<ValueId> outputs = builder.graph().node(node).outputs;
    if (context.wants(1)) context.set_gradient(1, outputs[0]);
    if (context.wants(2)) context.set_gradient(2, outputs[1]);
  }

  OpTraits traits() const override { return {.work = {OpFamily::kAttention, OpPass::kForward}}; }
  double flops_per_sample(const NodeTypes& node) const override { return pair_flops(node, 4.0); }
};

class AttentionDot final : public BatchMapOp {
 public:
  AttentionDot() : BatchMapOp("attention_dot") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 2);
    expect_rank(node, 0, 4, 4);
    return {{node.inputs[0].dtype, without_last(node.inputs[0].shape)}};
  }
};

class AttentionGradQuery final : public NamedOp {
 public:
  AttentionGradQuery() : NamedOp("attention_grad_query") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    check(node, true);
    return {node.inputs[0]};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    const AttentionOperands o = read_attention(node.attributes, true);
    std::vector<Axis> axes = graph::batch_map_axis(node);
    axes.push_back(length_axis(node, kQueriesAxis, AxisKind::kMap, node.inputs[0].shape[1].count,
                               {0, o.query_mask, o.stats, o.dout, o.dot}, {0}, o.mask, 1));
    axes.push_back(length_axis(node, kKeysAxis, AxisKind::kReduce, node.inputs[1].shape[1].count,
                               {1, 2, o.key_mask}, {}, o.mask, 2));
    return axes;
  }

  OpTraits traits() const override { return {.work = {OpFamily::kAttention, OpPass::kGradients}}; }
  double flops_per_sample(const NodeTypes& node) const override { return pair_flops(node, 6.0); }
};

class AttentionGradKeys final : public NamedOp {
 public:
  AttentionGradKeys() : NamedOp("attention_grad_keys") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    check(node, true);
    return {node.inputs[1], node.inputs[2]};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    const AttentionOperands o = read_attention(node.attributes, true);
    std::vector<Axis> axes = graph::batch_map_axis(node);
    axes.push_back(length_axis(node, kKeysAxis, AxisKind::kMap, node.inputs[1].shape[1].count,
                               {1, 2, o.key_mask}, {0, 1}, o.mask, 2));
    axes.push_back(length_axis(node, kQueriesAxis, AxisKind::kReduce, node.inputs[0].shape[1].count,
                               {0, o.query_mask, o.stats, o.dout, o.dot}, {}, o.mask, 1));
    return axes;
  }

  OpTraits traits() const override { return {.work = {OpFamily::kAttention, OpPass::kGradients}}; }
  double flops_per_sample(const NodeTypes& node) const override { return pair_flops(node, 8.0); }
};

}  // namespace

AttentionOperands read_attention(const Attributes& attributes, bool gradient) {
  AttentionOperands operands;
  int& next = operands.count;
  if (attributes.get_bool("key_masked", false)) operands.key_mask = next++;
  if (attributes.get_bool("query_masked", false)) operands.query_mask = next++;
  if (attributes.get_bool("masked", false)) operands.mask = next++;
  if (!gradient) return operands;
  operands.stats = next++;
  operands.dout = next++;
  operands.dot = next++;
  return operands;
}

void register_attention(OpRegistry& registry) {
  add_op<Attention>(registry);
  add_op<AttentionDot>(registry);
  add_op<AttentionGradKeys>(registry);
  add_op<AttentionGradQuery>(registry);
}

}  // namespace plimsoll::ops
