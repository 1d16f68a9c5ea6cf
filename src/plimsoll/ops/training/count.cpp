// Divisors of means: divide_by_count (x / (batch · elements per sample)) and batch_count (the
// divisor itself). The count is rounded to the element type before the division, as Keras does.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class DivideByCount final : public NamedOp {
 public:
  DivideByCount() : NamedOp("divide_by_count") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 1);
    expect_rank(node, 0, 0, 0);
    read_int(node, "elements_per_sample", 1);
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("divide_by_count", context.name("grad"),
                                  {context.output_gradient(0)}, context.attributes()));
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.elementwise = true, .cheap = true}; }
};

class BatchCount final : public NamedOp {
 public:
  BatchCount() : NamedOp("batch_count") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 0, 0);
    read_int(node, "elements_per_sample", 1);
    return {{read_dtype(node, "dtype", DType::kFloat32), Shape()}};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

}  // namespace

void register_count(OpRegistry& registry) {
  add_op<DivideByCount>(registry);
  add_op<BatchCount>(registry);
}

}  // namespace plimsoll::ops
