// transpose: the dimensions of each sample in another order.
//
// {permutation}: which dimension of the input each one of the output is, counted from 1 after the
// batch, as Keras's Permute counts them. The batch stays in front.

#include <algorithm>

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Transpose final : public BatchMapOp {
 public:
  Transpose() : BatchMapOp("transpose") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    const ValueType& x = node.inputs[0];
    if (!x.shape.has_batch()) {
      refuse("a batch dimension as input 0", to_string(x.shape), "Put a Reshape before it.");
    }
    expect_rank(node, 0, 2, kMostRank);
    const auto count = static_cast<size_t>(x.shape.rank() - 1);
    const std::vector<int64_t> order = read_ints(node, "permutation", count, 1);
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    ValueType y = x;
    for (size_t i = 0; i < count; ++i) {
      if (sorted[i] != static_cast<int64_t>(i) + 1) {
        refuse(fmt::format("each of the dimensions 1 to {} once in \"permutation\"", count),
               to_string(x.shape), "Check the node's attributes.");
      }
      y.shape[static_cast<int>(i) + 1] = x.shape[static_cast<int>(order[i])];
    }
    return {y};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const std::vector<int64_t>& order = context.attributes().get_ints("permutation");
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      back[static_cast<size_t>(order[i] - 1)] = static_cast<int64_t>(i) + 1;
    }
    context.set_gradient(
        0, context.builder().call("transpose", context.name("grad"), {context.output_gradient(0)},
                                  {{"permutation", back}}));
  }

  OpTraits traits() const override { return {.cheap = true, .bf16 = graph::kFollowsFirst}; }
  ElementMoves element_moves(const NodeTypes& node) const override {
    ElementMoves moves = moves_in_place(node);
    const std::vector<int64_t>& order = node.attributes.get_ints("permutation");
    for (size_t d = 0; d < moves.dims.size(); ++d) {
      moves.dims[d].source = static_cast<size_t>(order[d] - 1);
    }
    return moves;
  }
  double flops_per_sample(const NodeTypes&) const override { return 0; }

 private:
  static constexpr int kMostRank = 8;
};

}  // namespace

void register_transpose(OpRegistry& registry) { add_op<Transpose>(registry); }

}  // namespace plimsoll::ops
