// unary: one number from each number, of those that keras.ops has and that are no activations; and
// unary_grad, (dy, x) → dy f'(x), by the same attributes.
//
// {kind}: a name of the table below; power has an {exponent}. Where f' is not defined it is what
// TensorFlow's gradients give: |x|' is 0 at 0.

#include "ops/unary.h"

#include <array>
#include <cmath>

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

struct Row {
  std::string_view name;
  UnaryKind kind;
};

constexpr std::array kRows = {
    Row{"abs", UnaryKind::kAbs},         Row{"arccos", UnaryKind::kArccos},
    Row{"arccosh", UnaryKind::kArccosh}, Row{"arcsin", UnaryKind::kArcsin},
    Row{"arcsinh", UnaryKind::kArcsinh}, Row{"arctan", UnaryKind::kArctan},
    Row{"arctanh", UnaryKind::kArctanh}, Row{"cbrt", UnaryKind::kCbrt},
    Row{"ceil", UnaryKind::kCeil},       Row{"cos", UnaryKind::kCos},
    Row{"cosh", UnaryKind::kCosh},       Row{"erf", UnaryKind::kErf},
    Row{"erfc", UnaryKind::kErfc},       Row{"erfinv", UnaryKind::kErfinv},
    Row{"exp2", UnaryKind::kExp2},       Row{"expm1", UnaryKind::kExpm1},
    Row{"floor", UnaryKind::kFloor},     Row{"i0", UnaryKind::kI0},
    Row{"log", UnaryKind::kLog},         Row{"log10", UnaryKind::kLog10},
    Row{"log1p", UnaryKind::kLog1p},     Row{"log2", UnaryKind::kLog2},
    Row{"power", UnaryKind::kPower},     Row{"reciprocal", UnaryKind::kReciprocal},
    Row{"round", UnaryKind::kRound},     Row{"rsqrt", UnaryKind::kRsqrt},
    Row{"sign", UnaryKind::kSign},       Row{"sin", UnaryKind::kSin},
    Row{"sinc", UnaryKind::kSinc},       Row{"sinh", UnaryKind::kSinh},
    Row{"sqrt", UnaryKind::kSqrt},       Row{"tan", UnaryKind::kTan},
    Row{"trunc", UnaryKind::kTrunc},
};

constexpr double kFlopsPerElement = 16.0;

class Unary final : public ElementwiseOp {
 public:
  Unary() : ElementwiseOp("unary") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 1);
    read_unary(node.attributes);
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("unary_grad", context.name("grad"),
                                                   {context.output_gradient(0), context.input(0)},
                                                   context.attributes()));
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return kFlopsPerElement * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class UnaryGrad final : public ElementwiseOp {
 public:
  UnaryGrad() : ElementwiseOp("unary_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 2);
    read_unary(node.attributes);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return kFlopsPerElement * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

double inverse_erf(double x) {
  const double size = std::abs(x);
  if (!(size < 1.0)) return size == 1.0 ? std::copysign(HUGE_VAL, x) : std::nan("");
  if (x == 0.0) return x;
  constexpr double kShape = 0.147;  // Winitzki's
  const double logarithm = std::log1p(-x * x);
  const double half = 2.0 / (kPi * kShape) + logarithm / 2.0;
  double y = std::sqrt(std::sqrt(half * half - logarithm / kShape) - half);
  for (int step = 0; step < 3; ++step) {
    const double off = (std::erf(y) - size) / error_slope(y);
    y -= off / (1.0 + y * off);
  }
  return std::copysign(y, x);
}

namespace {

// Σ (x²/4)^k / (k! (k + order)!), which has passed double's range where x has this size.
constexpr double kBesselOverflow = 713.0;

double bessel_series(double x, int order) {
  if (std::abs(x) > kBesselOverflow) return HUGE_VAL;
  const double quarter = x * x / 4.0;
  double term = 1.0;
  double sum = 1.0;
  for (int k = 1; term > sum * 1e-17; ++k) {
    term *= quarter / (static_cast<double>(k) * (k + order));
    sum += term;
  }
  return sum;
}

}  // namespace

double bessel_i0(double x) { return x != x ? x : bessel_series(x, 0); }
double bessel_i1(double x) { return x != x ? x : x / 2.0 * bessel_series(x, 1); }

double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(kPi * x) / (kPi * x); }

double sinc_slope(double x) {
  const double angle = kPi * x;
  if (std::abs(angle) < 1e-2) return kPi * angle * (-1.0 / 3.0 + angle * angle / 30.0);
  return kPi * (angle * std::cos(angle) - std::sin(angle)) / (angle * angle);
}

UnaryFunction read_unary(const graph::Attributes& attributes) {
  UnaryFunction function;
  const std::string name = attributes.get_string("kind");
  const Row* found = nullptr;
  for (const Row& row : kRows) {
    if (row.name == name) found = &row;
  }
  if (found == nullptr) {
    refuse("the name of a function of one number as \"kind\"", name,
           "Check the node's attributes.");
  }
  function.kind = found->kind;
  if (function.kind == UnaryKind::kPower) function.exponent = attributes.get_double("exponent");
  return function;
}

void register_unary(OpRegistry& registry) {
  add_op<Unary>(registry);
  add_op<UnaryGrad>(registry);
}

}  // namespace plimsoll::ops
