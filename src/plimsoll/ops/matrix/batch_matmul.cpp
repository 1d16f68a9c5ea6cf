// batch_matmul: the matrix product of each sample's two matrices, (B, M, K) · (B, K, N) → (B, M,
// N).
//
// With {transpose_left} the left operand lies as (B, K, M), with {transpose_right} the right one as
// (B, N, K): nothing is transposed for a gradient. Sums run over K in order, in double.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class BatchMatmul final : public BatchMapOp {
 public:
  BatchMatmul() : BatchMapOp("batch_matmul") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    for (size_t i = 0; i < 2; ++i) {
      expect_floating(node, i);
      expect_rank(node, i, 3, 3);
    }
    const ValueType& left = node.inputs[0];
    const ValueType& right = node.inputs[1];
    const bool transposed_left = node.attributes.get_bool("transpose_left", false);
    const bool transposed_right = node.attributes.get_bool("transpose_right", false);
    const Dim inner = left.shape[transposed_left ? 1 : 2];
    if (left.dtype != right.dtype || left.shape[0] != right.shape[0] ||
        right.shape[transposed_right ? 2 : 1] != inner) {
      refuse("matrices that agree in batch and inner extent",
             fmt::format("{} and {}", to_string(left.shape), to_string(right.shape)),
             "Check which axes are summed over.");
    }
    return {{left.dtype, Shape{left.shape[0], left.shape[transposed_left ? 2 : 1],
                               right.shape[transposed_right ? 1 : 2]}}};
  }

  void gradient(GradientContext& context) const override {
    const ValueId a = context.input(0);
    const ValueId b = context.input(1);
    const ValueId dy = context.output_gradient(0);
    const bool ta = context.attributes().get_bool("transpose_left", false);
    const bool tb = context.attributes().get_bool("transpose_right", false);
    const auto product = [&](std::string_view name, ValueId left, ValueId right, bool turn_left,
                             bool turn_right) {
      return context.builder().call(
          "batch_matmul", context.name(name), {left, right},
          {{"transpose_left", turn_left}, {"transpose_right", turn_right}});
    };
    if (context.wants(0)) {
      context.set_gradient(
          0, ta ? product("grad_left", b, dy, tb, true) : product("grad_left", dy, b, false, !tb));
    }
    if (context.wants(1)) {
      context.set_gradient(1, tb ? product("grad_right", dy, a, true, ta)
                                 : product("grad_right", a, dy, !ta, false));
    }
  }

  double flops_per_sample(const NodeTypes& node) const override {
    const bool transposed = node.attributes.get_bool("transpose_left", false);
    return 2.0 * static_cast<double>(node.inputs[0].shape[transposed ? 1 : 2].count) *
           static_cast<double>(node.outputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_batch_matmul(OpRegistry& registry) { add_op<BatchMatmul>(registry); }

}  // namespace plimsoll::ops
