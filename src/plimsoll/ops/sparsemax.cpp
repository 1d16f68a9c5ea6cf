// sparsemax: max(x − τ, 0) over the last dimension, τ chosen so that the result sums to one.
//
// Source: Martins and Astudillo, "From softmax to sparsemax" (2016). Its gradient is dy minus its
// mean over the support, on the support.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Sparsemax final : public BatchMapOp {
 public:
  Sparsemax() : BatchMapOp("sparsemax") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 1);
    expect_rank(node, 0, 2, kAnyRank);
    const int rank = node.inputs[0].shape.rank();
    if (read_axis(node, rank) != rank - 1) {
      refuse("the last axis", fmt::format("axis={}", read_axis(node, rank)),
             "Put a Permute before it, or choose axis=-1.");
    }
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0,
                         context.builder().call("sparsemax_grad", context.name("grad"),
                                                {context.output_gradient(0), context.output(0)}));
  }
};

// (dy, y) → dx
class SparsemaxGrad final : public BatchMapOp {
 public:
  SparsemaxGrad() : BatchMapOp("sparsemax_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 2);
    expect_rank(node, 0, 2, kAnyRank);
    return {node.inputs[0]};
  }
};

}  // namespace

void register_sparsemax(OpRegistry& registry) {
  add_op<Sparsemax>(registry);
  add_op<SparsemaxGrad>(registry);
}

}  // namespace plimsoll::ops
