// What ranks do where each of them holds a part of a value, {parts} of them (graph/ranks.h:
// part_shape; what the last ones have too much is 0).
//
//   rank_part     x → this rank's part of it; nothing is exchanged
//   rank_scatter  x, or x and `after` → the part of the sum over all ranks, and a number for the
//                 next `after`
//   rank_whole    part (, into) (, after …) {shape, into} → the parts of all ranks, and a number
//                 likewise; where {into} is 1 there is a whole value in whose memory they may come
//   rank_squares  part (, after) {shape, factor} → factor · Σ x² of the whole, the same bits as
//                 sum_squares gives: each rank goes on adding where the one before it ended; and a
//                 number likewise
//
//   batch_mark    x (B, …) → a number, when x is there for the whole batch: what comes `after` it
//                 is in another loop over the batch
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
    const bool into = reads_into(node);
    expect_operands(node, into ? 2 : 1, into ? 4 : 3);
    const ValueType whole{node.inputs[0].dtype, fixed_shape(read_dims(node, "shape"))};
    expect_type(node, 0, part_type(node, whole));
    if (into) expect_type(node, 1, whole);
    for (size_t i = into ? 2 : 1; i < node.inputs.size(); ++i) expect_type(node, i, kNumber);
    return {whole, kNumber};
  }
  std::vector<Alias> aliases(const NodeTypes& node) const override {
    if (!reads_into(node)) return {};
    return {{1, 0}};
  }
  OpTraits traits() const override { return {.exchanges = true}; }

 private:
  static bool reads_into(const NodeTypes& node) { return read_int(node, "into", 0) > 0; }
};

class BatchMark final : public BatchReduceOp {
 public:
  BatchMark() : BatchReduceOp("batch_mark") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    if (!node.inputs[0].shape.has_batch()) {
      refuse("samples", to_string(node.inputs[0].shape), "Check the node's operands.");
    }
    return {kNumber};
  }
  OpTraits traits() const override { return {.cheap = true, .sums_for_rows = true}; }
  double flops_per_sample(const NodeTypes&) const override { return 0; }
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
  add_op<BatchMark>(registry);
  add_op<RankPart>(registry);
  add_op<RankScatter>(registry);
  add_op<RankSquares>(registry);
  add_op<RankWhole>(registry);
}

}  // namespace plimsoll::ops
