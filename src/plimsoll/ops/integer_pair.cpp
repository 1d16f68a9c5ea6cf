// integer_pair: one integer from two of the same type, of those that keras.ops has.
//
// {kind}: bit_and, bit_or, bit_xor; left_shift and right_shift (by 0 to the type's bits less one:
// other amounts count as the nearest of these, as in TensorFlow; the sign is kept to the right);
// gcd and lcm, of magnitudes; floor_quotient and floor_remainder, of 0 where the second is 0; hash,
// which joins two fingerprints, and unsigned_remainder, of the bits taken for numbers. Results are
// kept to the type's bits.

#include "ops/integer_pair.h"

#include <array>

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

struct Row {
  std::string_view name;
  IntegerKind kind;
};

constexpr std::array kRows = {
    Row{"bit_and", IntegerKind::kBitAnd},
    Row{"bit_or", IntegerKind::kBitOr},
    Row{"bit_xor", IntegerKind::kBitXor},
    Row{"floor_quotient", IntegerKind::kFloorQuotient},
    Row{"floor_remainder", IntegerKind::kFloorRemainder},
    Row{"gcd", IntegerKind::kGcd},
    Row{"hash", IntegerKind::kHash},
    Row{"lcm", IntegerKind::kLcm},
    Row{"left_shift", IntegerKind::kLeftShift},
    Row{"right_shift", IntegerKind::kRightShift},
    Row{"unsigned_remainder", IntegerKind::kUnsignedRemainder},
};

class IntegerPair final : public ElementwiseOp {
 public:
  IntegerPair() : ElementwiseOp("integer_pair") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_integer(node, 0);
    expect_type(node, 1, node.inputs[0]);
    read_integer_kind(node.attributes);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}}; }
};

}  // namespace

IntegerKind read_integer_kind(const graph::Attributes& attributes) {
  const std::string& name = attributes.get_string("kind");
  for (const Row& row : kRows) {
    if (row.name == name) return row.kind;
  }
  refuse("the name of a function of two integers as \"kind\"", name,
         "Check the node's attributes.");
}

void register_integer_pair(OpRegistry& registry) { add_op<IntegerPair>(registry); }

}  // namespace plimsoll::ops
