// What ranks do where each of them holds a part of a value, {parts} of them (graph/ranks.h:
// part_shape; what the last ones have too much is 0).
//
//   rank_part     x → this rank's part of it; nothing is exchanged
//   rank_scatter  x, or x and `after` → the part of the sum over all ranks, and a number for the
//                 next `after`
//   rank_whole    part, like (, after) → the parts of all ranks, of the type of `like`, in whose
//                 memory they may come, and a number likewise
//   rank_squares  part (, after) {shape, factor} → factor · Σ x² of the whole, the same bits as
//                 sum_squares gives: each rank goes on adding where the one before it ended; and a
//                 number likewise
//
// `after` links exchanges as it does those of rank_sum. On one rank it is rank 0 of them, and the
// parts of others are 0.

#include "graph/ranks.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

const ValueType kNumber{DType::kFloat32, Shape()};

// The type of a part of a value.
ValueType part_type(const NodeTypes& node, const ValueType& whole) {
  if (whole.shape.has_batch() || whole.shape.rank() == 0) {
    refuse("a value of several elements without samples", to_string(whole.shape),
           "Check the node's operands.");
  }
  return {whole.dtype, graph::part_shape(whole.shape, read_int(node, "parts", 1))};
}

class RankPart final : public NamedOp {
 public:
  RankPart() : NamedOp("rank_part") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    return {part_type(node, node.inputs[0])};
  }
  OpTraits traits() const override { return {.cheap = true}; }
};

class RankScatter final : public NamedOp {
 public:
  RankScatter() : NamedOp("rank_scatter") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 2);
    expect_floating(node, 0);
    return {part_type(node, node.inputs[0]), kNumber};
  }
  OpTraits traits() const override { return {.exchanges = true}; }
};

class RankWhole final : public NamedOp {
 public:
  RankWhole() : NamedOp("rank_whole") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 3);
    expect_type(node, 0, part_type(node, node.inputs[1]));
    return {node.inputs[1], kNumber};
  }
  std::vector<Alias> aliases(const NodeTypes&) const override { return {{1, 0}}; }
  OpTraits traits() const override { return {.exchanges = true}; }
};

class RankSquares final : public NamedOp {
 public:
  RankSquares() : NamedOp("rank_squares") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 2);
    expect_floating(node, 0);
    node.attributes.get_double("factor");
    const ValueType whole{node.inputs[0].dtype, fixed_shape(read_dims(node, "shape"))};
    expect_type(node, 0, part_type(node, whole));
    return {{whole.dtype, Shape()}, kNumber};
  }
  OpTraits traits() const override { return {.exchanges = true}; }
};

}  // namespace

void register_rank_parts(OpRegistry& registry) {
  add_op<RankPart>(registry);
  add_op<RankScatter>(registry);
  add_op<RankSquares>(registry);
  add_op<RankWhole>(registry);
}

}  // namespace plimsoll::ops
