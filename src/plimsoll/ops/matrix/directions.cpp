// Factors of samples' matrices that have directions in them, and which way those point.
//
//   eigenvectors       A (B, N, N) → values (B, N), the smallest first; vectors (B, N, N), in
//                      columns. A is symmetric: its lower triangle is read
//   eigenvectors_grad  (de, dV, e, V) → dA, a lower triangle (Giles, 2008, as TensorFlow has it)
//   singular_vectors   A (B, M, N), K the smaller of both → U (B, M, K), s (B, K), V (B, N, K):
//                      A = U diag(s) Vᵀ, the largest value first
//   singular_vectors_grad  (dU, ds, dV, U, s, V) → dA (Townsend, 2016, as TensorFlow has it)
//
// A vector and its negative are equally right. Signs are those of the algorithms that TensorFlow
// has from Eigen (SelfAdjointEigenSolver, JacobiSVD): kernels take the same steps in double with
// float32's bounds, and then others that change no sign, until the result is exact to double's
// precision. Signs that float32's rounding decides there, as some of random symmetric matrices of
// 16 rows and more, are not always the same: there the last bit of a number decides them.
// Vectors of equal values are any that are at right angles.

#include <algorithm>

#include "ops/matrix/column_turns.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// The operand, which has a matrix for each sample.
const ValueType& matrix_of(const NodeTypes& node, size_t input) {
  expect_floating(node, input);
  expect_rank(node, input, 3, 3);
  const ValueType& type = node.inputs[input];
  if (!type.shape.has_batch()) {
    refuse("a matrix for each sample", to_string(type.shape), "Check its shape.");
  }
  return type;
}

const ValueType& square_of(const NodeTypes& node, size_t input) {
  const ValueType& type = matrix_of(node, input);
  if (type.shape[1] != type.shape[2]) {
    refuse("a square matrix for each sample", to_string(type.shape), "Check its shape.");
  }
  return type;
}

ValueType without_axis(const ValueType& matrix, int axis) {
  return {matrix.dtype, Shape{matrix.shape[0], matrix.shape[3 - axis]}};
}

// What is asked for one result where another has none.
ValueId zeros_of(GradientContext& context, std::string_view name, ValueId x) {
  return context.builder().call("scale_shift", context.name(name), {x},
                                {{"scale", 0.0}, {"offset", 0.0}});
}

// The gradients of all results and the results themselves; those that nobody wants count as 0.
std::vector<ValueId> of_results(GradientContext& context, int count) {
  std::vector<ValueId> all;
  for (int i = 0; i < count; ++i) {
    const ValueId given = context.output_gradient(i);
    all.push_back(
        given.valid() ? given : zeros_of(context, "none_" + std::to_string(i), context.output(i)));
  }
  for (int i = 0; i < count; ++i) all.push_back(context.output(i));
  return all;
}

class Eigenvectors final : public ColumnTurnsOp {
 public:
  Eigenvectors() : ColumnTurnsOp("eigenvectors") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    const ValueType& a = square_of(node, 0);
    return {without_axis(a, 2), a};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("eigenvectors_grad", context.name("grad"),
                                                   of_results(context, 2)));
  }
};

class EigenvectorsGrad final : public ColumnTurnsOp {
 public:
  EigenvectorsGrad() : ColumnTurnsOp("eigenvectors_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 4, 4);
    const ValueType& v = square_of(node, 3);
    expect_type(node, 0, without_axis(v, 2));
    expect_type(node, 1, v);
    expect_type(node, 2, without_axis(v, 2));
    return {v};
  }
};

class SingularVectors final : public ColumnTurnsOp {
 public:
  SingularVectors() : ColumnTurnsOp("singular_vectors") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    const ValueType& a = matrix_of(node, 0);
    const Dim count = Dim::constant(std::min(a.shape[1].count, a.shape[2].count));
    return {{a.dtype, Shape{a.shape[0], a.shape[1], count}},
            {a.dtype, Shape{a.shape[0], count}},
            {a.dtype, Shape{a.shape[0], a.shape[2], count}}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("singular_vectors_grad", context.name("grad"),
                                                   of_results(context, 3)));
  }
};

class SingularVectorsGrad final : public ColumnTurnsOp {
 public:
  SingularVectorsGrad() : ColumnTurnsOp("singular_vectors_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 6, 6);
    const ValueType& u = matrix_of(node, 3);
    const ValueType& v = matrix_of(node, 5);
    const ValueType s{u.dtype, Shape{u.shape[0], u.shape[2]}};
    expect_type(node, 0, u);
    expect_type(node, 1, s);
    expect_type(node, 2, v);
    expect_type(node, 4, s);
    if (v.dtype != u.dtype || v.shape[0] != u.shape[0] || v.shape[2] != u.shape[2]) {
      refuse("as many vectors of one side as of the other", to_string(v.shape),
             "Check their shapes.");
    }
    return {{u.dtype, Shape{u.shape[0], u.shape[1], v.shape[1]}}};
  }
};

}  // namespace

void register_directions(OpRegistry& registry) {
  add_op<Eigenvectors>(registry);
  add_op<EigenvectorsGrad>(registry);
  add_op<SingularVectors>(registry);
  add_op<SingularVectorsGrad>(registry);
}

}  // namespace plimsoll::ops
