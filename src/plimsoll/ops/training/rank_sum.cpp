// What ranks exchange (graph/ranks.h).
//
//   rank_sum     x, or x and `after` {rows_per_sample} → x's type, and a number for the next
//   `after` rank_gather  x (B, …), or x and `after` {samples} → (samples, …), and a number likewise
//
// rank_sum adds sums over a rank's samples up over all ranks; rank_gather puts the samples of all
// ranks one after the other.
// rows_per_sample 0: they are added. Otherwise they are moments of as many rows a sample, (mean,
// Σ (x − mean)²) in rows of a matrix, and merged. Nodes of this kind are linked by `after`, so that
// all ranks run them in one order whatever their plans are. On one rank x is what comes out.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class RankSum final : public NamedOp {
 public:
  RankSum() : NamedOp("rank_sum") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 2);
    const ValueType& x = node.inputs[0];
    if (x.shape.has_batch())
      refuse("a sum over samples", to_string(x.shape), "Check the node's operands.");
    const int64_t rows = read_int(node, "rows_per_sample", 0);
    if (rows > 0) expect_rank(node, 0, 2, 2);
    return {x, {DType::kFloat32, Shape()}};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.exchanges = true}; }
};

class RankGather final : public NamedOp {
 public:
  RankGather() : NamedOp("rank_gather") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 2);
    const ValueType& x = node.inputs[0];
    if (!x.shape.has_batch()) refuse("samples", to_string(x.shape), "Check the node's operands.");
    const int64_t samples = read_int(node, "samples", 1);
    std::vector<Dim> dims(x.shape.dims().begin(), x.shape.dims().end());
    for (Dim& dim : dims) dim = Dim::constant(dim.at(samples));
    return {{x.dtype, Shape(std::move(dims))}, {DType::kFloat32, Shape()}};
  }

  OpTraits traits() const override { return {.exchanges = true}; }
};

}  // namespace

void register_rank_sum(OpRegistry& registry) {
  add_op<RankGather>(registry);
  add_op<RankSum>(registry);
}

}  // namespace plimsoll::ops
