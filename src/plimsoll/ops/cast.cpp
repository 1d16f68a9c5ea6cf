// cast: the same numbers in another dtype. Floating numbers become integers by truncation, bool is
// 0 or 1 (anything but zero is 1). To bfloat16 numbers are rounded to nearest, ties to even; the
// gradient of a bfloat16 weight is float32 and passes unrounded.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

bool castable(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16 ||
         is_integer(dtype) || dtype == DType::kBool;
}

class Cast final : public ImageMapOp {
 public:
  Cast() : ImageMapOp("cast") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    const ValueType& x = node.inputs[0];
    const DType to = parse_dtype(node.attributes.get_string("dtype"));
    if (!castable(x.dtype) || !castable(to)) {
      refuse("a cast between float32, float64, bfloat16, integers and bool",
             std::string(to_string(x.dtype)) + " to " + std::string(to_string(to)),
             "Choose another dtype.");
    }
    return {{to, x.shape}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const ValueId dy = context.output_gradient(0);
    if (context.output_type(0).dtype == DType::kBFloat16 &&
        context.builder().type(dy) == context.input_type(0)) {
      context.set_gradient(0, dy);
      return;
    }
    const std::string dtype(to_string(context.input_type(0).dtype));
    context.set_gradient(
        0, context.builder().call("cast", context.name("grad"), {dy}, {{"dtype", dtype}}));
  }

  OpTraits traits() const override { return {.cheap = true}; }
  ElementMoves element_moves(const NodeTypes&) const override {
    return {.kind = ElementMoves::Kind::kInOrder};
  }
};

}  // namespace

void register_cast(OpRegistry& registry) { add_op<Cast>(registry); }

}  // namespace plimsoll::ops
