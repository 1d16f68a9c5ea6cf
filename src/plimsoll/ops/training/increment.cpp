// increment: an int64 scalar plus one (the counter of iterations).

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Increment final : public NamedOp {
 public:
  Increment() : NamedOp("increment") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_type(node, 0, {DType::kInt64, Shape()});
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.elementwise = true, .cheap = true}; }
};

}  // namespace

void register_increment(OpRegistry& registry) { add_op<Increment>(registry); }

}  // namespace plimsoll::ops
