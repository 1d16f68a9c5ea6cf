// softmax and log_softmax over the last dimension, and their gradients from the output.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr double kFlopsPerElement = 16.0;

class Softmax final : public BatchMapOp {
 public:
  Softmax(std::string_view name, std::string_view grad) : BatchMapOp(name), grad_(grad) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 1);
    const int rank = node.inputs[0].shape.rank();
    expect_rank(node, 0, 2, kAnyRank);
    if (read_axis(node, rank) != rank - 1) {
      refuse("the last axis", fmt::format("axis={}", read_axis(node, rank)),
             "Put a Permute before it, or choose axis=-1.");
    }
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0,
                         context.builder().call(grad_, context.name("grad"),
                                                {context.output_gradient(0), context.output(0)}));
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return kFlopsPerElement * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 private:
  std::string_view grad_;
};

// (dy, y) → dx
class SoftmaxGrad final : public BatchMapOp {
 public:
  using BatchMapOp::BatchMapOp;

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 2);
    expect_rank(node, 0, 2, kAnyRank);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return kFlopsPerElement * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_softmax(OpRegistry& registry) {
  add_op<Softmax>(registry, "softmax", "softmax_grad");
  add_op<Softmax>(registry, "log_softmax", "log_softmax_grad");
  add_op<SoftmaxGrad>(registry, "softmax_grad");
  add_op<SoftmaxGrad>(registry, "log_softmax_grad");
}

}  // namespace plimsoll::ops
