// What ranks exchange (graph/ranks.h).
//
//   rank_sum        x, or x and `after` {rows_per_sample} → x's type, and a number for the next
//                   `after`
//   rank_sums       a bucket: x1, x2, … (and `after`) {rows_per_sample: one each} → sums likewise,
//                   and a number for the next `after`
//   rank_sum_begin  as rank_sums, and {under_way}: they are on their way → sums that are not there
//                   yet, room, and a number for the next `after`
//   rank_sum_end    what rank_sum_begin gives (and `after`) {rows_per_sample, waits} → the sums
//   rank_gather     x (B, …), or x and `after` {samples} → (samples, …), and a number likewise
//
// rank_sum adds sums over a rank's samples up over all ranks, rank_sums several of them in one
// message; rank_gather puts the samples of all ranks one after the other.
// rows_per_sample 0: they are added. Otherwise they are moments of as many rows a sample, (mean,
// Σ (x − mean)²) in rows of a matrix, and merged. Nodes of this kind are linked by `after`, so that
// all ranks run them in one order whatever their plans are. On one rank x is what comes out.

#include "base/ceil_div.h"
#include "graph/rank_message.h"
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

// Several sums, the first operands, in their own memory.
class SumsOp : public NamedOp {
 public:
  using NamedOp::NamedOp;

  std::vector<Alias> aliases(const NodeTypes& node) const override {
    std::vector<Alias> aliases(rows_of(node).size());
    for (size_t i = 0; i < aliases.size(); ++i) {
      aliases[i] = {static_cast<int>(i), static_cast<int>(i)};
    }
    return aliases;
  }
  OpTraits traits() const override { return {.exchanges = true}; }

 protected:
  static const std::vector<int64_t>& rows_of(const NodeTypes& node) {
    return node.attributes.get_ints("rows_per_sample");
  }
  // The types of the sums, after which come so many operands at least and at most.
  static std::vector<ValueType> infer_sums(const NodeTypes& node, size_t least, size_t most) {
    const std::vector<int64_t>& rows = rows_of(node);
    if (rows.empty()) refuse("a number for each sum", "none", "Check the node's attributes.");
    expect_operands(node, rows.size() + least, rows.size() + most);
    std::vector<ValueType> sums;
    for (size_t i = 0; i < rows.size(); ++i) {
      const ValueType& x = node.inputs[i];
      if (x.shape.has_batch())
        refuse("a sum over samples", to_string(x.shape), "Check the node's operands.");
      if (rows[i] > 0) expect_rank(node, i, 2, 2);
      sums.push_back(x);
    }
    return sums;
  }
};

class RankSums final : public SumsOp {
 public:
  RankSums() : SumsOp("rank_sums") {}
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    std::vector<ValueType> results = infer_sums(node, 0, 1);
    results.push_back({DType::kFloat32, Shape()});
    return results;
  }
};

class RankSumBegin final : public SumsOp {
 public:
  RankSumBegin() : SumsOp("rank_sum_begin") {}
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    node.attributes.get_bool(graph::kUnderWay);
    std::vector<ValueType> results = infer_sums(node, 0, 1);
    const int64_t room = graph::rank_message(node.inputs, rows_of(node)).room_bytes();
    const DType dtype = node.inputs[0].dtype;
    const int64_t elements = ceil_div(room, element_bytes(dtype).count());
    results.push_back({dtype, Shape({Dim::constant(elements)})});
    results.push_back({DType::kFloat32, Shape()});
    return results;
  }
};

class RankSumEnd final : public SumsOp {
 public:
  RankSumEnd() : SumsOp("rank_sum_end") {}
  std::vector<ValueType> infer(const NodeTypes& node) const override {
    node.attributes.get_bool(graph::kWaits);
    return infer_sums(node, 2, 3);
  }
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
  add_op<RankSumBegin>(registry);
  add_op<RankSumEnd>(registry);
  add_op<RankSums>(registry);
}

}  // namespace plimsoll::ops
