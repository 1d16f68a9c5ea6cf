// What is asked of the square matrices of samples, (B, N, N); one for each sample.
//
//   cholesky         A → L, lower, L Lᵀ = A; of A's lower triangle alone. NaN where A is not
//                    positive definite
//   cholesky_grad    (dL, L) → dA, symmetric (Murray, 2016, as TensorFlow has it)
//   determinant      A → (B), |A|
//   log_determinant  A → sign (B), log of the magnitude (B)
//   inverse          A → A⁻¹
//   qr               A (B, M, N), M ≥ N → Q (B, M, N), R (B, N, N): Q R = A, the columns of Q of
//                    length 1 and at right angles, R an upper triangle. By Householder's
//                    reflections; signs as in TensorFlow (Eigen), gradient by Walter and Lehmann,
//                    2018
//   solve            (A, b) {triangle, transposed} → x (B, N, K), A x = b or Aᵀ x = b. Of a
//   triangle
//                    "lower" or "upper" the other elements of A count as 0; "none": the whole
//   triangle         A {of: "lower" or "upper"} → the same with 0 outside of the triangle; its own
//                    gradient
//
// Solutions are found by elimination with pivots of the largest magnitude, in double. Of a singular
// matrix they are infinite or no numbers; TensorFlow ends with an error there.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

void expect_square(const NodeTypes& node, size_t input) {
  expect_floating(node, input);
  expect_rank(node, input, 3, 3);
  const Shape& shape = node.inputs[input].shape;
  if (!shape.has_batch() || shape[1] != shape[2]) {
    refuse("a square matrix for each sample", to_string(shape), "Check its shape.");
  }
}

class MatrixOp : public BatchMapOp {
 public:
  using BatchMapOp::BatchMapOp;

  double flops_per_sample(const NodeTypes& node) const override {
    const auto extent = static_cast<double>(node.inputs[0].shape[1].count);
    return extent * extent * extent;
  }
};

ValueId product(GradientContext& context, std::string_view name, ValueId left, ValueId right,
                bool turn_left, bool turn_right) {
  return context.builder().call("batch_matmul", context.name(name), {left, right},
                                {{"transpose_left", turn_left}, {"transpose_right", turn_right}});
}

ValueId negative(GradientContext& context, std::string_view name, ValueId x) {
  return context.builder().call("scale_shift", context.name(name), {x},
                                {{"scale", -1.0}, {"offset", 0.0}});
}

// A⁻ᵀ times one number for each sample.
ValueId inverse_times(GradientContext& context, ValueId numbers) {
  graph::GraphBuilder& builder = context.builder();
  const ValueId inverse = builder.call("inverse", context.name("inverse"), {context.input(0)});
  const ValueId transposed = builder.call("transpose", context.name("transposed"), {inverse},
                                          {{"permutation", std::vector<int64_t>{2, 1}}});
  const int64_t extent = context.input_type(0).shape[1].count;
  const ValueId one = builder.call("reshape", context.name("each"), {numbers},
                                   {{"shape", std::vector<int64_t>{1, 1}}});
  const ValueId all = builder.call("broadcast", context.name("all"), {one},
                                   {{"shape", std::vector<int64_t>{extent, extent}}});
  return builder.call("multiply", context.name("grad"), {transposed, all});
}

class Cholesky final : public MatrixOp {
 public:
  Cholesky() : MatrixOp("cholesky") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_square(node, 0);
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0,
                         context.builder().call("cholesky_grad", context.name("grad"),
                                                {context.output_gradient(0), context.output(0)}));
  }
};

class CholeskyGrad final : public MatrixOp {
 public:
  CholeskyGrad() : MatrixOp("cholesky_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_square(node, 0);
    expect_type(node, 1, node.inputs[0]);
    return {node.inputs[0]};
  }
};

class Determinant final : public MatrixOp {
 public:
  Determinant() : MatrixOp("determinant") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_square(node, 0);
    return {{node.inputs[0].dtype, Shape{node.inputs[0].shape[0]}}};
  }

  // d|A| = |A| A⁻ᵀ
  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, inverse_times(context,
                         context.builder().call("multiply", context.name("scale"),
                                                {context.output_gradient(0), context.output(0)})));
  }
};

class LogDeterminant final : public MatrixOp {
 public:
  LogDeterminant() : MatrixOp("log_determinant") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_square(node, 0);
    const ValueType each{node.inputs[0].dtype, Shape{node.inputs[0].shape[0]}};
    return {each, each};
  }

  // d log|A| = A⁻ᵀ; the sign has none.
  void gradient(GradientContext& context) const override {
    if (!context.wants(0) || !context.output_gradient(1).valid()) return;
    context.set_gradient(0, inverse_times(context, context.output_gradient(1)));
  }
};

class Inverse final : public MatrixOp {
 public:
  Inverse() : MatrixOp("inverse") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_square(node, 0);
    return {node.inputs[0]};
  }

  // −Yᵀ dY Yᵀ
  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const ValueId y = context.output(0);
    const ValueId left = product(context, "left", y, context.output_gradient(0), true, false);
    context.set_gradient(0,
                         negative(context, "grad", product(context, "both", left, y, false, true)));
  }
};

// x R⁻ᵀ of an upper triangle R.
ValueId over_triangle(GradientContext& context, std::string_view name, ValueId x, ValueId r) {
  graph::GraphBuilder& builder = context.builder();
  const std::string own = "grad/" + std::string(name);
  const auto transposed = [&](std::string_view what, ValueId value) {
    return builder.call("transpose", context.name(own + std::string(what)), {value},
                        {{"permutation", std::vector<int64_t>{2, 1}}});
  };
  const ValueId y = builder.call("solve", context.name(own), {r, transposed("_rows", x)},
                                 {{"triangle", "upper"}, {"transposed", false}});
  return transposed("_columns", y);
}

class Qr final : public MatrixOp {
 public:
  Qr() : MatrixOp("qr") {}

  // Reflections of what is left of each column, in the matrix and in Q.
  double flops_per_sample(const NodeTypes& node) const override {
    const auto rows = static_cast<double>(node.inputs[0].shape[1].count);
    const auto columns = static_cast<double>(node.inputs[0].shape[2].count);
    return 4 * rows * columns * columns;
  }

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    expect_rank(node, 0, 3, 3);
    const ValueType& a = node.inputs[0];
    if (!a.shape.has_batch() || a.shape[1].count < a.shape[2].count) {
      refuse("a matrix for each sample, as high as wide or higher", to_string(a.shape),
             "Check its shape.");
    }
    ValueType r = a;
    r.shape[1] = a.shape[2];
    return {a, r};
  }

  // With L the lower triangle of Qᵀ dQ − dQᵀ Q + R dRᵀ − dR Rᵀ:
  // dA = Q (dR + L R⁻ᵀ) + (dQ − Q Qᵀ dQ) R⁻ᵀ, of which a square matrix has no second part.
  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    graph::GraphBuilder& builder = context.builder();
    const Shape& shape = context.input_type(0).shape;
    const bool square = shape[1] == shape[2];
    const ValueId q = context.output(0);
    const ValueId r = context.output(1);
    const ValueId dq = context.output_gradient(0);
    const ValueId dr = context.output_gradient(1);
    const auto joined = [&](std::string_view op, std::string_view name, ValueId a, ValueId b) {
      return builder.call(op, context.name(name), {a, b});
    };
    const auto turned = [&](std::string_view name, ValueId x) {
      return joined("subtract", std::string(name) + "_turned", x,
                    builder.call("transpose", context.name(std::string(name) + "_transposed"), {x},
                                 {{"permutation", std::vector<int64_t>{2, 1}}}));
    };
    ValueId sum;
    ValueId apart;
    if (dq.valid()) {
      const ValueId along = product(context, "along", q, dq, true, false);
      if (!square) {
        apart = joined("subtract", "apart", dq, product(context, "within", q, along, false, false));
      }
      sum = turned("along", along);
    }
    if (dr.valid()) {
      const ValueId of_r = turned("of_r", product(context, "of_r", r, dr, false, true));
      sum = sum.valid() ? joined("add", "both", sum, of_r) : of_r;
    }
    if (!sum.valid()) return;
    const ValueId lower = builder.call("triangle", context.name("lower"), {sum}, {{"of", "lower"}});
    ValueId inner = over_triangle(context, "inner", lower, r);
    if (dr.valid()) inner = joined("add", "inner_sum", inner, dr);
    ValueId da = product(context, "grad_q", q, inner, false, false);
    if (apart.valid()) {
      da = joined("add", "grad_sum", da, over_triangle(context, "apart", apart, r));
    }
    context.set_gradient(0, da);
  }
};

class Solve final : public MatrixOp {
 public:
  Solve() : MatrixOp("solve") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_square(node, 0);
    expect_rank(node, 1, 3, 3);
    const ValueType& a = node.inputs[0];
    const ValueType& b = node.inputs[1];
    if (b.dtype != a.dtype || b.shape[0] != a.shape[0] || b.shape[1] != a.shape[1]) {
      refuse("as many rows as the matrix has", to_string(b.shape), "Check its shape.");
    }
    read_name(node, "triangle", "none", {"none", "lower", "upper"});
    node.attributes.get_bool("transposed", false);
    return {b};
  }

  // db = A⁻ᵀ dx;  dA = −db xᵀ, of Aᵀ −x dbᵀ
  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const bool transposed = context.attributes().get_bool("transposed", false);
    const std::string triangle = context.attributes().get_string("triangle", "none");
    const ValueId db = builder.call("solve", context.name("grad_right"),
                                    {context.input(0), context.output_gradient(0)},
                                    {{"triangle", triangle}, {"transposed", !transposed}});
    if (context.wants(1)) context.set_gradient(1, db);
    if (!context.wants(0)) return;
    const ValueId x = context.output(0);
    ValueId da = product(context, "product", transposed ? x : db, transposed ? db : x, false, true);
    da = negative(context, "grad_left", da);
    if (triangle != "none") {
      da = builder.call("triangle", context.name("grad_triangle"), {da}, {{"of", triangle}});
    }
    context.set_gradient(0, da);
  }
};

class Triangle final : public MatrixOp {
 public:
  Triangle() : MatrixOp("triangle") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_square(node, 0);
    read_name(node, "of", "lower", {"lower", "upper"});
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("triangle", context.name("grad"), {context.output_gradient(0)},
                                  context.attributes()));
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true}; }
};

}  // namespace

void register_matrices(OpRegistry& registry) {
  add_op<Cholesky>(registry);
  add_op<CholeskyGrad>(registry);
  add_op<Determinant>(registry);
  add_op<Inverse>(registry);
  add_op<LogDeterminant>(registry);
  add_op<Qr>(registry);
  add_op<Solve>(registry);
  add_op<Triangle>(registry);
}

}  // namespace plimsoll::ops
