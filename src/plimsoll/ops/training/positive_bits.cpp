// positive_bits: the saved form of a value of which only "greater than zero" is asked.
//
// One bit an element, set where x > 0 (so not for NaN and zeros); element e of a sample is bit
// e % 8 of byte e / 8 of the sample's row, and a row starts at a byte boundary.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class PositiveBits final : public BatchMapOp {
 public:
  PositiveBits() : BatchMapOp("positive_bits") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_real(node, 0);
    return {{DType::kBits, node.inputs[0].shape}};
  }
  OpTraits traits() const override { return {.cheap = true, .form_encoder = true}; }
};

}  // namespace

void register_positive_bits(OpRegistry& registry) { add_op<PositiveBits>(registry); }

}  // namespace plimsoll::ops
