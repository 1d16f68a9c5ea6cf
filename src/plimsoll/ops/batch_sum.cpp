// batch_sum: Σ v · w over everything, a scalar; and its gradient, d · w in every place.
//
// Weights are one number a sample, or one for each element. Without them w is 1.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

void expect_weights(const NodeTypes& node, size_t input, const ValueType& value) {
  const ValueType per_sample{value.dtype, Shape{value.shape[0]}};
  if (node.inputs[input].shape.rank() == 1) {
    expect_type(node, input, per_sample);
  } else {
    expect_type(node, input, value);
  }
}

class BatchSum final : public BatchReduceOp {
 public:
  BatchSum() : BatchReduceOp("batch_sum") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 2);
    expect_floating(node, 0);
    if (node.inputs.size() > 1) {
      expect_rank(node, 0, 1, kAnyRank);
      expect_weights(node, 1, node.inputs[0]);
    }
    return {{node.inputs[0].dtype, Shape()}};
  }

  void gradient(GradientContext& context) const override {
    if (context.input_count() > 1) expect_unwanted(context, 1, "sample weights");
    if (!context.wants(0)) return;
    const Shape& value = context.input_type(0).shape;
    std::vector<ValueId> inputs = {context.output_gradient(0)};
    if (context.input_count() > 1) inputs.push_back(context.input(1));
    context.set_gradient(
        0, context.builder().call(
               "batch_sum_grad", context.name("grad"), inputs,
               {{"value_shape", sample_dims(value)},
                {"rows_per_sample", value.has_batch() ? value[0].count : int64_t{0}}}));
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return graph::image_reduce_axes(node, graph::kPixelRank);
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 2.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

// (d scalar, weights?) {value_shape, rows_per_sample} → the value's type. rows_per_sample: rows of
// dimension 0 in one sample (1 where left out); 0: the value has no batch dimension.
class BatchSumGrad final : public BatchMapOp {
 public:
  BatchSumGrad() : BatchMapOp("batch_sum_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 2);
    expect_floating(node, 0);
    expect_rank(node, 0, 0, 0);
    const int64_t rows = node.attributes.get_int("rows_per_sample", 1);
    std::vector<Dim> dims;
    if (rows > 0) dims.push_back(Dim::batch(rows));
    for (int64_t dim : read_dims(node, "value_shape")) dims.push_back(Dim::constant(dim));
    const ValueType value{node.inputs[0].dtype, Shape(std::move(dims))};
    if (node.inputs.size() > 1) {
      if (value.shape.rank() == 0) refuse("no weights for a scalar", "some", "Leave them out.");
      expect_weights(node, 1, value);
    }
    return {value};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return graph::image_map_axes(node, graph::kPixelRank);
  }
  OpTraits traits() const override { return {.cheap = true}; }
};

}  // namespace

void register_batch_sum(OpRegistry& registry) {
  add_op<BatchSum>(registry);
  add_op<BatchSumGrad>(registry);
}

}  // namespace plimsoll::ops
