// cast: the same numbers in another dtype. Floating numbers become integers by truncation, bool is
// 0 or 1 (anything but zero is 1). To bfloat16 numbers are rounded to nearest, ties to even; the
// gradient of a bfloat16 weight is float32 and passes unrounded.

//
// bitcast {dtype}: the same bytes as numbers of another dtype, without a gradient. The last
// dimension has as many more or fewer as their size says.

#include "base/format.h"
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

class Bitcast final : public BatchMapOp {
 public:
  Bitcast() : BatchMapOp("bitcast") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    ValueType y = node.inputs[0];
    const DType from = y.dtype;
    y.dtype = parse_dtype(node.attributes.get_string("dtype"));
    const auto plain = [](DType dtype) {
      return dtype == DType::kFloat32 || dtype == DType::kFloat64 || is_integer(dtype);
    };
    if (!plain(from) || !plain(y.dtype)) {
      refuse("float32, float64 or integers",
             fmt::format("{} to {}", to_string(from), to_string(y.dtype)), "Choose another dtype.");
    }
    const int64_t had = element_bytes(from).count();
    const int64_t has = element_bytes(y.dtype).count();
    if (had == has) return {y};
    const int last = y.shape.rank() - 1;
    if (last < 1 || !y.shape.has_batch() || y.shape[last].count * had % has != 0) {
      refuse(fmt::format("a last dimension whose bytes are numbers of {}", to_string(y.dtype)),
             to_string(y.shape), "Check the shape.");
    }
    y.shape[last] = Dim::constant(y.shape[last].count * had / has);
    return {y};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

}  // namespace

void register_cast(OpRegistry& registry) {
  add_op<Bitcast>(registry);
  add_op<Cast>(registry);
}

}  // namespace plimsoll::ops
