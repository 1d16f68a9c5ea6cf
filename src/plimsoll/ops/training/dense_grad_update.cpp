// dense_grad_update: the gradient of a dense layer's weight and the optimizer's update by it, in
// one, so that no more than some rows of the gradient exist at a time.
//
//   (x, dy, w, slots…, learning rate, …) → (w', slots'…),  g = Σ x · dy over all rows of the batch
//
// Attributes are the optimizer's, and "optimizer", the name of its operator (optimizer_op.h).

#include "graph/state_rows.h"
#include "ops/register.h"
#include "ops/registry.h"
#include "ops/training/optimizer_op.h"

namespace plimsoll::ops {
namespace {

constexpr size_t kWeight = 2;

int last_dimension(const ValueType& type) { return type.shape.rank() - 1; }

class DenseGradUpdate final : public NamedOp {
 public:
  DenseGradUpdate() : NamedOp("dense_grad_update") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, kWeight + 2, kAnyOperands);
    expect_real(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    const ValueType& x = node.inputs[0];
    if (!x.shape.has_batch()) {
      refuse("a first factor of samples", "one without a batch",
             "Leave the gradient and the update apart.");
    }
    expect_rank(node, 1, x.shape.rank(), x.shape.rank());
    const Dim units = node.inputs[1].shape[last_dimension(x)];
    ValueType dy = x;
    dy.shape[last_dimension(x)] = units;
    expect_type(node, 1, dy);
    expect_type(node, kWeight, {wide_dtype(x.dtype), Shape{x.shape[last_dimension(x)], units}});
    const std::string name = node.attributes.get_string("optimizer", "");
    const auto* optimizer = dynamic_cast<const OptimizerOp*>(registry().find(name));
    if (optimizer == nullptr) {
      refuse("the name of an optimizer's operator in \"optimizer\"", "\"" + name + "\"",
             "Take that of the update that follows the gradient.");
    }
    const std::vector<ValueType> inputs = update_inputs(node);
    return optimizer->infer({node.attributes, inputs, {}});
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    std::vector<Axis> axes = graph::state_rows_axis(node, node.inputs[kWeight]);
    axes[0].inputs[0].dimension = last_dimension(node.inputs[0]);
    Axis batch = graph::batch_reduce_axis(node)[0];
    batch.kind = AxisKind::kWhole;  // the update waits for the whole sum
    axes.insert(axes.begin(), std::move(batch));
    return axes;
  }

  std::vector<Alias> aliases(const NodeTypes& node) const override {
    std::vector<Alias> aliases;
    aliases.reserve(node.outputs.size());
    for (int i = 0; i < std::ssize(node.outputs); ++i) {
      aliases.push_back({.input = static_cast<int>(kWeight) + i, .output = i});
    }
    return aliases;
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kDense, OpPass::kGradKernel, OpFusion::kUpdate}};
  }
  double flops_per_sample(const NodeTypes& node) const override {
    return 2.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample()) *
           static_cast<double>(node.inputs[kWeight].shape[1].count);
  }

 private:
  static constexpr size_t kAnyOperands = 16;

  // The types of the update alone: the gradient has the weight's type.
  static std::vector<ValueType> update_inputs(const NodeTypes& node) {
    std::vector<ValueType> inputs = {node.inputs[kWeight], node.inputs[kWeight]};
    inputs.insert(inputs.end(), node.inputs.begin() + kWeight + 1, node.inputs.end());
    return inputs;
  }
};

}  // namespace

void register_dense_grad_update(OpRegistry& registry) { add_op<DenseGradUpdate>(registry); }

}  // namespace plimsoll::ops
