// broadcast: a value repeated along dimensions of extent 1, or along new leading ones, as NumPy
// does; and sum_to, which undoes it by sums.
//
//   (B, 1, 8) {shape [5, 8]}             → (B, 5, 8)
//   (5, 8)    {shape [5, 8], batched}    → (B, 5, 8)      its gradient sums over the batch
//
// `shape` is per sample where the result has a batch dimension, whole where it has none. A sample
// may have several rows (fold_batch): those of the operand, or `rows_per_sample` of a result whose
// operand has no batch.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// Dimension of `from` that meets dimension `d` of `to`; negative: none.
int aligned(const Shape& from, const Shape& to, int d) { return d - (to.rank() - from.rank()); }

void expect_fits(const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (int d = 0; fits && d < to.rank(); ++d) {
    const int f = aligned(from, to, d);
    fits = f < 0 || from[f] == to[d] || from[f] == Dim::constant(1);
  }
  if (!fits) {
    refuse(fmt::format("a value that repeats into {}", to_string(to)), to_string(from),
           "Make the shapes agree from the last dimension on.");
  }
}

Shape wide_shape(const NodeTypes& node, bool has_batch) {
  const Shape& x = node.inputs[0].shape;
  std::vector<Dim> dims;
  if (has_batch) {
    const int64_t rows = x.has_batch() ? x[0].count : node.attributes.get_int("rows_per_sample", 1);
    if (rows < 1) refuse("one row in a sample or more", std::to_string(rows), "Check the node.");
    dims.push_back(Dim::batch(rows));
  }
  for (int64_t dim : read_dims(node, "shape")) dims.push_back(Dim::constant(dim));
  return Shape(std::move(dims));
}

// The batch axis of a wide and a narrow operand; the narrow one may lack it.
std::vector<Axis> batch_axis(const Shape& wide, const Shape& narrow, bool wide_is_output) {
  if (!wide.has_batch()) return {};
  const AxisUse has{.dimension = 0, .stride = wide[0].count, .after = wide[0].count - 1};
  const AxisUse narrow_use = narrow.has_batch() ? has : AxisUse{};
  const bool sums = !wide_is_output && !narrow.has_batch();
  return {{.name = std::string(graph::kBatchAxis),
           .kind = sums ? AxisKind::kReduce : AxisKind::kMap,
           .extent = Dim::batch(),
           .inputs = {wide_is_output ? narrow_use : has},
           .outputs = {wide_is_output ? has : narrow_use}}};
}

class Broadcast final : public NamedOp {
 public:
  Broadcast() : NamedOp("broadcast") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    const ValueType& x = node.inputs[0];
    const bool has_batch = x.shape.has_batch() || node.attributes.get_bool("batched", false);
    const Shape y = wide_shape(node, has_batch);
    if (x.shape.has_batch() && x.shape.rank() != y.rank()) {
      refuse(fmt::format("as many dimensions as in {}", to_string(y)), to_string(x.shape),
             "Reshape the value first.");
    }
    expect_fits(x.shape, y);
    return {{x.dtype, y}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return batch_axis(node.outputs[0].shape, node.inputs[0].shape, true);
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const Shape& x = context.input_type(0).shape;
    context.set_gradient(
        0, context.builder().call("sum_to", context.name("grad"), {context.output_gradient(0)},
                                  {{"shape", sample_dims(x)}, {"batched", x.has_batch()}}));
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

// {shape, batched}: what is left, with a batch dimension where `batched`.
class SumTo final : public NamedOp {
 public:
  SumTo() : NamedOp("sum_to") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    const Shape y = wide_shape(node, node.attributes.get_bool("batched", false));
    expect_fits(y, node.inputs[0].shape);
    if (y.has_batch() && y.rank() != node.inputs[0].shape.rank()) {
      refuse(fmt::format("as many dimensions as in {}", to_string(node.inputs[0].shape)),
             to_string(y), "Reshape the value first.");
    }
    return {{node.inputs[0].dtype, y}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return batch_axis(node.inputs[0].shape, node.outputs[0].shape, false);
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const Shape& x = context.input_type(0).shape;
    Attributes attributes{{"shape", sample_dims(x)}, {"batched", x.has_batch()}};
    if (x.has_batch() && x[0].count > 1) attributes.set("rows_per_sample", x[0].count);
    context.set_gradient(0, context.builder().call("broadcast", context.name("grad"),
                                                   {context.output_gradient(0)}, attributes));
  }
};

}  // namespace

void register_broadcast(OpRegistry& registry) {
  add_op<Broadcast>(registry);
  add_op<SumTo>(registry);
}

}  // namespace plimsoll::ops
