#include "ops/training/sample_loss.h"

namespace plimsoll::ops {
namespace {

void expect_prediction_and_target(const NodeTypes& node, TargetKind target) {
  expect_floating(node, 0);
  expect_rank(node, 0, 2, kAnyRank);
  const ValueType& prediction = node.inputs[0];
  if (target == TargetKind::kDense) {
    expect_type(node, 1, prediction);
  } else {
    expect_integer(node, 1);
    expect_type(node, 1, {node.inputs[1].dtype, without_last(prediction.shape)});
  }
}

void expect_numbers(const NodeTypes& node, const std::vector<std::string_view>& numbers) {
  constexpr double kNoBound = 1e300;
  for (std::string_view key : numbers) read_double(node, key, -kNoBound, kNoBound);
}

class SampleLoss final : public ImageMapOp {
 public:
  SampleLoss(std::string_view name, std::string_view grad, TargetKind target, double flops,
             std::vector<std::string_view> numbers)
      : ImageMapOp(name),
        grad_(grad),
        target_(target),
        flops_(flops),
        numbers_(std::move(numbers)) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_prediction_and_target(node, target_);
    expect_numbers(node, numbers_);
    return {{node.inputs[0].dtype, without_last(node.inputs[0].shape)}};
  }

  void gradient(GradientContext& context) const override {
    expect_unwanted(context, 1, "the targets of a loss");
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call(grad_, context.name("grad"),
                                  {context.input(0), context.input(1), context.output_gradient(0)},
                                  context.attributes()));
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return flops_ * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 private:
  std::string_view grad_;
  TargetKind target_;
  double flops_;
  std::vector<std::string_view> numbers_;
};

class SampleLossGrad final : public ImageMapOp {
 public:
  SampleLossGrad(std::string_view name, TargetKind target, double flops,
                 std::vector<std::string_view> numbers)
      : ImageMapOp(name), target_(target), flops_(flops), numbers_(std::move(numbers)) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_prediction_and_target(node, target_);
    expect_numbers(node, numbers_);
    expect_type(node, 2, {node.inputs[0].dtype, without_last(node.inputs[0].shape)});
    return {node.inputs[0]};
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return flops_ * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 private:
  TargetKind target_;
  double flops_;
  std::vector<std::string_view> numbers_;
};

}  // namespace

void add_sample_loss(OpRegistry& registry, std::string_view name, std::string_view grad_name,
                     TargetKind target, double flops_per_element,
                     std::vector<std::string_view> numbers) {
  add_op<SampleLoss>(registry, name, grad_name, target, flops_per_element, numbers);
  add_op<SampleLossGrad>(registry, grad_name, target, flops_per_element, std::move(numbers));
}

}  // namespace plimsoll::ops
