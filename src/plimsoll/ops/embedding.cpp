// embedding: rows of a table by integer numbers, and the gradient of the table.
//
// A number outside of the table gives a row of zeros and takes no gradient: kernels never read
// beyond it. embedding_grad sums, for each row of the table, the gradients of the positions that
// name it in the order of those positions; a block's sum is rounded once and added to the table's.
// With {sum_of} squares or magnitudes these are summed instead, which is more than those of the sum
// where a row was read several times: optimizers ask for them.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

Shape with_columns(const Shape& ids, int64_t columns) {
  std::vector<Dim> dims(ids.dims().begin(), ids.dims().end());
  dims.push_back(Dim::constant(columns));
  return Shape(std::move(dims));
}

class Embedding final : public BatchMapOp {
 public:
  Embedding() : BatchMapOp("embedding") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_integer(node, 0);
    expect_floating(node, 1);
    expect_rank(node, 1, 2, 2);
    if (node.inputs[1].shape.has_batch()) {
      refuse("a table without a batch", to_string(node.inputs[1].shape), "Give it a weight.");
    }
    return {
        {node.inputs[1].dtype, with_columns(node.inputs[0].shape, node.inputs[1].shape[1].count)}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(1)) return;
    context.set_gradient(
        1, context.builder().call("embedding_grad", context.name("grad"),
                                  {context.input(0), context.output_gradient(0)},
                                  {{"input_dim", context.input_type(1).shape[0].count}}));
  }

  OpTraits traits() const override { return {.lookup = {.rows = 0, .table = 1}}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return static_cast<double>(node.outputs[0].shape.elements_per_sample());
  }
};

// (ids, dy) {input_dim, sum_of} → (input_dim, columns)
class EmbeddingGrad final : public BatchReduceOp {
 public:
  EmbeddingGrad() : BatchReduceOp("embedding_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_integer(node, 0);
    expect_floating(node, 1);
    const int rank = node.inputs[0].shape.rank() + 1;
    expect_rank(node, 1, rank, rank);
    const Dim columns = node.inputs[1].shape[rank - 1];
    expect_type(node, 1, {node.inputs[1].dtype, with_columns(node.inputs[0].shape, columns.count)});
    const Dim rows = Dim::constant(read_int(node, "input_dim", 1));
    const std::string what = node.attributes.get_string("sum_of", "gradients");
    if (what != "gradients" && what != "squares" && what != "magnitudes") {
      refuse("sum_of gradients, squares or magnitudes", what, "Use one of these.");
    }
    return {{node.inputs[1].dtype, Shape{rows, columns}}};
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 2.0 * static_cast<double>(node.inputs[1].shape.elements_per_sample());
  }
};

}  // namespace

void register_embedding(OpRegistry& registry) {
  add_op<Embedding>(registry);
  add_op<EmbeddingGrad>(registry);
}

}  // namespace plimsoll::ops
