// What is asked of the singular values of samples' matrices A = U Σ Vᵀ, (B, M, N); K is the smaller
// of M and N.
//
//   singular_values       A → (B, K), the largest first
//   singular_values_grad  (ds, A) → dA = U diag(ds) Vᵀ; a value of 0 has no gradient
//   pseudo_inverse        A {rcond} → P = A⁺ (B, N, M), V Σ⁺ Uᵀ: values of at most `rcond` times
//                         the largest count as 0
//   pseudo_inverse_grad   (dP, A, P) → dA = −Pᵀ dP Pᵀ + (I − A P) dPᵀ P Pᵀ + Pᵀ P dPᵀ (I − P A), of
//                         matrices that keep their rank (Golub and Pereyra, 1973)
//
// Values are told in one way only; vectors have signs, and equal values have any, so neither is an
// output here.

#include <algorithm>
#include <utility>

#include "ops/matrix/column_turns.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class SingularOp : public ColumnTurnsOp {
 public:
  using ColumnTurnsOp::ColumnTurnsOp;

 protected:
  static void expect_matrix(const NodeTypes& node, size_t input) {
    expect_floating(node, input);
    expect_rank(node, input, 3, 3);
    if (!node.inputs[input].shape.has_batch()) {
      refuse("a matrix for each sample", to_string(node.inputs[input].shape), "Check its shape.");
    }
  }
  static ValueType values_of(const ValueType& a) {
    const int64_t count = std::min(a.shape[1].count, a.shape[2].count);
    return {a.dtype, Shape{a.shape[0], Dim::constant(count)}};
  }
  static ValueType inverse_of(ValueType a) {
    std::swap(a.shape[1], a.shape[2]);
    return a;
  }
};

class SingularValues final : public SingularOp {
 public:
  SingularValues() : SingularOp("singular_values") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_matrix(node, 0);
    return {values_of(node.inputs[0])};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("singular_values_grad", context.name("grad"),
                                                   {context.output_gradient(0), context.input(0)}));
  }
};

class SingularValuesGrad final : public SingularOp {
 public:
  SingularValuesGrad() : SingularOp("singular_values_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_matrix(node, 1);
    expect_type(node, 0, values_of(node.inputs[1]));
    return {node.inputs[1]};
  }
};

class PseudoInverse final : public SingularOp {
 public:
  PseudoInverse() : SingularOp("pseudo_inverse") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_matrix(node, 0);
    node.attributes.get_double("rcond", 0);
    return {inverse_of(node.inputs[0])};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call(
                                "pseudo_inverse_grad", context.name("grad"),
                                {context.output_gradient(0), context.input(0), context.output(0)}));
  }
};

class PseudoInverseGrad final : public SingularOp {
 public:
  PseudoInverseGrad() : SingularOp("pseudo_inverse_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_matrix(node, 1);
    expect_type(node, 0, inverse_of(node.inputs[1]));
    expect_type(node, 2, inverse_of(node.inputs[1]));
    return {node.inputs[1]};
  }
};

}  // namespace

void register_singular_values(OpRegistry& registry) {
  add_op<PseudoInverse>(registry);
  add_op<PseudoInverseGrad>(registry);
  add_op<SingularValues>(registry);
  add_op<SingularValuesGrad>(registry);
}

}  // namespace plimsoll::ops
