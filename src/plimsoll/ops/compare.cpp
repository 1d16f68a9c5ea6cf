// compare: whether two values, or a value and a number, stand in a relation, element by element.
// logical: and, or, xor of two bool values; not of one. any_last: whether any element of the last
// dimension is true. The results are bool; none has a gradient.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

void expect_bool(const NodeTypes& node, size_t input) {
  if (node.inputs[input].dtype == DType::kBool) return;
  refuse(fmt::format("bool as input {}", input), std::string(to_string(node.inputs[input].dtype)),
         "Put a comparison before it.");
}

class Compare final : public BatchMapOp {
 public:
  Compare() : BatchMapOp("compare") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 2);
    if (node.inputs.size() == 2) {
      expect_type(node, 1, node.inputs[0]);
    } else {
      node.attributes.get_double("value");
    }
    read_name(node, "kind", "",
              {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"});
    return {{DType::kBool, node.inputs[0].shape}};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

class Logical final : public BatchMapOp {
 public:
  Logical() : BatchMapOp("logical") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const std::string kind = read_name(node, "kind", "", {"and", "or", "xor", "not"});
    const size_t count = kind == "not" ? 1 : 2;
    expect_operands(node, count, count);
    expect_bool(node, 0);
    if (count == 2) expect_type(node, 1, node.inputs[0]);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true}; }
};

class AnyLast final : public BatchMapOp {
 public:
  AnyLast() : BatchMapOp("any_last") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_bool(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    return {{DType::kBool, without_last(node.inputs[0].shape)}};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

}  // namespace

void register_compare(OpRegistry& registry) {
  add_op<AnyLast>(registry);
  add_op<Compare>(registry);
  add_op<Logical>(registry);
}

}  // namespace plimsoll::ops
