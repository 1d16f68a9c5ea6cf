// lstm, gru, simple_rnn, their gradients, and shift_time (recurrent.h).

#include "ops/recurrent.h"

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

using graph::GraphBuilder;

std::string_view cell_of(std::string_view op) {
  return op.ends_with("_grad") ? op.substr(0, op.size() - 5) : op;
}

Activation activation_of(const Attributes& attributes, std::string_view key,
                         std::string_view fallback) {
  return read_activation({{"kind", attributes.get_string(key, fallback)}});
}

Shape rows_of(const Shape& z, int64_t columns) { return {z[0], z[1], Dim::constant(columns)}; }

void expect_at(const NodeTypes& node, int input, DType dtype, const Shape& shape) {
  if (input >= 0) expect_type(node, static_cast<size_t>(input), {dtype, shape});
}

// What value, kernel, states, factors and mask have in common in both directions.
void expect_operand_types(const NodeTypes& node, const RecurrentLayout& layout,
                          const Shape& sequence) {
  const DType real = node.inputs[static_cast<size_t>(layout.z)].dtype;
  const int64_t wide = layout.gates * layout.units;
  const Shape state{sequence[0], Dim::constant(layout.units)};
  expect_at(node, layout.kernel, real, {Dim::constant(layout.units), Dim::constant(wide)});
  expect_at(node, layout.bias, real, {Dim::constant(wide)});
  expect_at(node, layout.h0, real, state);
  expect_at(node, layout.c0, real, state);
  expect_at(node, layout.factors, real, {sequence[0], Dim::constant(wide)});
  expect_at(node, layout.mask, DType::kBool, {sequence[0], sequence[1]});
}

class Recurrent final : public BatchMapOp {
 public:
  Recurrent(std::string_view name, std::string_view grad) : BatchMapOp(name), grad_(grad) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const RecurrentLayout layout = read_recurrent(name(), node.attributes);
    const auto count = static_cast<size_t>(layout.operands);
    expect_operands(node, count, count);
    expect_floating(node, 0);
    expect_rank(node, 0, 3, 3);
    const ValueType& z = node.inputs[0];
    expect_type(node, 0, {z.dtype, rows_of(z.shape, layout.gates * layout.units)});
    expect_operand_types(node, layout, z.shape);
    const ValueType rows{z.dtype, rows_of(z.shape, layout.units)};
    const ValueType saved{z.dtype, rows_of(z.shape, layout.saved * layout.units)};
    const ValueType state{z.dtype, {z.shape[0], Dim::constant(layout.units)}};
    if (layout.kind == CellKind::kLstm) return {rows, rows, saved, state, state};
    return {rows, saved, state};
  }

  void gradient(GradientContext& context) const override {
    const RecurrentLayout layout = read_recurrent(name(), context.attributes());
    const bool lstm = layout.kind == CellKind::kLstm;
    if (lstm && context.output_gradient(1).valid()) {
      refuse("no gradient through the cells of single steps", "one", "Use the last one.");
    }
    const std::vector<ValueId> results = add_gradient(context, layout);
    const bool inner = layout.kind == CellKind::kGru && layout.reset_after;
    const ValueId dz = results[0];
    const ValueId gates = inner ? results[1] : dz;
    set(context, layout.z, dz);
    if (layout.initial_state) {
      set(context, layout.h0, results[inner ? 2 : 1]);
      if (lstm) set(context, layout.c0, results[2]);
    }
    if (layout.bias >= 0 && context.wants(layout.bias)) {
      set(context, layout.bias,
          context.builder().call("bias_grad", context.name("grad_recurrent_bias"), {gates}));
    }
    if (context.wants(layout.kernel)) {
      context.set_gradient(layout.kernel, add_kernel_gradient(context, layout, gates));
    }
  }

  // A step's row of z is read before its gates are written.
  std::vector<Alias> aliases(const NodeTypes& node) const override {
    const RecurrentLayout layout = read_recurrent(name(), node.attributes);
    if (layout.gates != layout.saved) return {};
    return {{layout.z, layout.kind == CellKind::kLstm ? 2 : 1}};
  }

  OpTraits traits() const override { return {.work = {OpFamily::kRecurrent, OpPass::kForward}}; }
  double flops_per_sample(const NodeTypes& node) const override {
    const int64_t units = node.attributes.get_int("units");
    return (2.0 * static_cast<double>(units) + 30.0) *
           static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 private:
  static void set(GradientContext& context, int input, ValueId gradient) {
    if (input >= 0 && context.wants(input)) context.set_gradient(input, gradient);
  }

  std::vector<ValueId> add_gradient(GradientContext& context, const RecurrentLayout& layout) const {
    const bool lstm = layout.kind == CellKind::kLstm;
    const int state = lstm ? 3 : 2;
    std::string gradients;
    std::vector<ValueId> operands;
    const auto take = [&](int output, char letter) {
      if (!context.output_gradient(output).valid()) return;
      gradients += letter;
      operands.push_back(context.output_gradient(output));
    };
    take(0, 'y');
    take(state, 'h');
    if (lstm) take(4, 'c');
    operands.push_back(context.output(lstm ? 2 : 1));
    if (lstm) operands.push_back(context.output(1));
    if (layout.kind == CellKind::kGru) operands.push_back(context.output(0));
    operands.push_back(context.input(layout.kernel));
    const int first = lstm ? layout.c0 : layout.h0;
    if (first >= 0 && layout.kind != CellKind::kSimpleRnn) operands.push_back(context.input(first));
    if (layout.factors >= 0) operands.push_back(context.input(layout.factors));
    if (layout.mask >= 0) operands.push_back(context.input(layout.mask));
    Attributes attributes = context.attributes();
    attributes.set("gradients", gradients);
    const graph::NodeId node =
        context.builder().add(grad_, context.name("grad"), std::move(operands), attributes);
    return context.builder().graph().node(node).outputs;
  }

  // The states before each step, by whose transpose the kernel's gradient is a product.
  static ValueId add_kernel_gradient(GradientContext& context, const RecurrentLayout& layout,
                                     ValueId gates) {
    GraphBuilder& builder = context.builder();
    std::vector<ValueId> operands = {context.output(0)};
    if (layout.h0 >= 0) operands.push_back(context.input(layout.h0));
    const ValueId before = builder.call("shift_time", context.name("before"), operands,
                                        {{"go_backwards", layout.go_backwards}});
    const bool reset_before = layout.kind == CellKind::kGru && !layout.reset_after;
    if (layout.factors < 0 && !reset_before) {
      return builder.call("dense_grad_kernel", context.name("grad_kernel"), {before, gates});
    }
    std::vector<ValueId> columns;
    for (int g = 0; g < layout.gates; ++g) {
      const int64_t begin = g * layout.units;
      const ValueId part = slice(builder, context.name("gate"), gates, begin, layout.units);
      ValueId left = before;
      if (reset_before && g == 2) {  // r · h, dropped out already
        left = slice(builder, context.name("reset"), context.output(1), 3 * layout.units,
                     layout.units);
      } else if (layout.factors >= 0) {
        left = scale_by_factors(context, layout, before, begin);
      }
      columns.push_back(
          builder.call("dense_grad_kernel", context.name("grad_kernel"), {left, part}));
    }
    return builder.call("concat", context.name("grad_kernel"), columns, {{"axis", 1}});
  }

  static ValueId slice(GraphBuilder& builder, const std::string& name, ValueId value, int64_t begin,
                       int64_t count) {
    return builder.call("slice", name, {value}, {{"axis", -1}, {"begin", begin}, {"count", count}});
  }

  static ValueId scale_by_factors(GradientContext& context, const RecurrentLayout& layout,
                                  ValueId before, int64_t begin) {
    GraphBuilder& builder = context.builder();
    const Shape shape = builder.type(before).shape;
    ValueId factors =
        slice(builder, context.name("factors"), context.input(layout.factors), begin, layout.units);
    factors = builder.call("reshape", context.name("factors"), {factors},
                           {{"shape", std::vector<int64_t>{1, layout.units}}});
    factors = builder.call("broadcast", context.name("factors"), {factors},
                           {{"shape", sample_dims(shape)}});
    return builder.call("multiply", context.name("dropped"), {before, factors});
  }

  std::string_view grad_;
};

class RecurrentGrad final : public BatchMapOp {
 public:
  using BatchMapOp::BatchMapOp;

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const RecurrentLayout layout = read_recurrent(name(), node.attributes);
    const auto count = static_cast<size_t>(layout.operands);
    expect_operands(node, count, count);
    const auto z = static_cast<size_t>(layout.z);
    expect_floating(node, z);
    expect_rank(node, z, 3, 3);
    const Shape& saved = node.inputs[z].shape;
    const DType real = node.inputs[z].dtype;
    const Shape state{saved[0], Dim::constant(layout.units)};
    expect_type(node, z, {real, rows_of(saved, layout.saved * layout.units)});
    expect_at(node, layout.dy, real, rows_of(saved, layout.units));
    expect_at(node, layout.dh, real, state);
    expect_at(node, layout.dc, real, state);
    expect_at(node, layout.sequence, real, rows_of(saved, layout.units));
    expect_operand_types(node, layout, saved);
    const ValueType dz{real, rows_of(saved, layout.gates * layout.units)};
    std::vector<ValueType> outputs = {dz};
    if (layout.kind == CellKind::kGru && layout.reset_after) outputs.push_back(dz);
    if (layout.initial_state) outputs.push_back({real, state});
    if (layout.initial_state && layout.kind == CellKind::kLstm) outputs.push_back({real, state});
    return outputs;
  }

  // A step's gates are read before their gradient is written.
  std::vector<Alias> aliases(const NodeTypes& node) const override {
    const RecurrentLayout layout = read_recurrent(name(), node.attributes);
    if (layout.gates != layout.saved) return {};
    return {{layout.z, 0}};
  }

  OpTraits traits() const override { return {.work = {OpFamily::kRecurrent, OpPass::kGradients}}; }
  double flops_per_sample(const NodeTypes& node) const override {
    const int64_t units = node.attributes.get_int("units");
    return (2.0 * static_cast<double>(units) + 30.0) *
           static_cast<double>(node.outputs[0].shape.elements_per_sample());
  }
};

// (x (B,T,U), first (B,U)?) {go_backwards}: at each step what x is one step earlier, and `first`
// (or zero) at the first step; earlier in the order in which the steps run.
class ShiftTime final : public BatchMapOp {
 public:
  ShiftTime() : BatchMapOp("shift_time") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 2);
    expect_floating(node, 0);
    expect_rank(node, 0, 3, 3);
    const ValueType& x = node.inputs[0];
    if (node.inputs.size() > 1) expect_type(node, 1, {x.dtype, {x.shape[0], x.shape[2]}});
    node.attributes.get_bool("go_backwards", false);
    return {x};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

}  // namespace

RecurrentLayout read_recurrent(std::string_view op, const Attributes& attributes) {
  const std::string_view cell = cell_of(op);
  const bool backward = cell != op;
  RecurrentLayout layout;
  layout.kind = cell == "lstm"  ? CellKind::kLstm
                : cell == "gru" ? CellKind::kGru
                                : CellKind::kSimpleRnn;
  const bool lstm = layout.kind == CellKind::kLstm;
  const bool gru = layout.kind == CellKind::kGru;
  layout.units = attributes.get_int("units");
  if (layout.units < 1) refuse("one or more units", std::to_string(layout.units), "");
  layout.gates = lstm ? 4 : gru ? 3 : 1;
  layout.saved = gru ? 4 : layout.gates;
  layout.reset_after = gru && attributes.get_bool("reset_after", true);
  layout.go_backwards = attributes.get_bool("go_backwards", false);
  layout.initial_state = attributes.get_bool("initial_state", false);
  layout.activation = activation_of(attributes, "activation", "tanh");
  layout.recurrent_activation = activation_of(attributes, "recurrent_activation", "sigmoid");
  int next = 0;
  if (backward) {
    for (char letter : attributes.get_string("gradients")) {
      (letter == 'y' ? layout.dy : letter == 'h' ? layout.dh : layout.dc) = next++;
    }
  }
  layout.z = next++;
  if (backward && (lstm || gru)) layout.sequence = next++;
  layout.kernel = next++;
  if (!backward && attributes.get_bool("recurrent_bias", false)) layout.bias = next++;
  if (layout.initial_state) {
    if (!backward || gru) layout.h0 = next++;
    if (lstm) layout.c0 = next++;
  }
  if (attributes.get_bool("recurrent_dropout", false)) layout.factors = next++;
  if (attributes.get_bool("masked", false)) layout.mask = next++;
  layout.operands = next;
  return layout;
}

void register_recurrent(OpRegistry& registry) {
  add_op<Recurrent>(registry, "gru", "gru_grad");
  add_op<Recurrent>(registry, "lstm", "lstm_grad");
  add_op<Recurrent>(registry, "simple_rnn", "simple_rnn_grad");
  add_op<RecurrentGrad>(registry, "gru_grad");
  add_op<RecurrentGrad>(registry, "lstm_grad");
  add_op<RecurrentGrad>(registry, "simple_rnn_grad");
  add_op<ShiftTime>(registry);
}

}  // namespace plimsoll::ops
