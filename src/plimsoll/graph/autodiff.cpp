#include "graph/autodiff.h"

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::graph {
namespace {

// The values that a target reaches and that can carry a gradient.
std::vector<bool> find_wanted(const Graph& graph, std::span<const ValueId> targets) {
  std::vector<bool> wanted(graph.values.size(), false);
  for (ValueId target : targets) {
    PLIMSOLL_CHECK(target.valid() && target.index() < wanted.size(), "a gradient of no value");
    wanted[target.index()] = true;
  }
  for (const Node& node : graph.nodes) {
    bool reached = false;
    for (ValueId input : node.inputs) reached = reached || wanted[input.index()];
    if (!reached) continue;
    for (ValueId output : node.outputs) {
      wanted[output.index()] = is_floating(graph.value(output).type.dtype);
    }
  }
  return wanted;
}

// Gradients known so far, one per value of the forward graph.
class Accumulator {
 public:
  Accumulator(GraphBuilder& builder, size_t value_count)
      : builder_(builder), gradients_(value_count) {}

  ValueId get(ValueId value) const { return gradients_[value.index()]; }

  void add(ValueId value, ValueId contribution) {
    ValueId& sum = gradients_[value.index()];
    if (!sum.valid()) {
      sum = contribution;
      return;
    }
    const std::string name = builder_.graph().value(value).name + "/gradient_sum";
    // Of a bfloat16 value some may be sums in float32: all are added as such.
    if (builder_.type(sum) != builder_.type(contribution)) {
      for (ValueId* part : {&sum, &contribution}) *part = as_float32(*part, name);
    }
    sum = builder_.call("accumulate", name, {sum, contribution});
  }

 private:
  ValueId as_float32(ValueId part, const std::string& name) {
    if (builder_.type(part).dtype == DType::kFloat32) return part;
    return builder_.call("cast", name + "/float32", {part}, {{"dtype", "float32"}});
  }

  GraphBuilder& builder_;
  std::vector<ValueId> gradients_;
};

// Runs the rule of one node and hands its gradients on.
void differentiate(GraphBuilder& builder, NodeId id, const std::vector<bool>& wanted_values,
                   Accumulator& gradients) {
  const Node node = builder.graph().node(id);
  std::vector<ValueId> output_gradients;
  bool reached = false;
  for (ValueId output : node.outputs) {
    output_gradients.push_back(gradients.get(output));
    reached = reached || output_gradients.back().valid();
  }
  std::vector<bool> wanted;
  bool any_wanted = false;
  for (ValueId input : node.inputs) {
    wanted.push_back(wanted_values[input.index()]);
    any_wanted = any_wanted || wanted.back();
  }
  if (!reached || !any_wanted) return;

  builder.set_layer(node.layer);
  GradientContext context(builder, id, output_gradients, std::move(wanted));
  try {
    node.op->gradient(context);
  } catch (const Error& error) {
    const std::string place = node.layer.empty() ? "" : "[" + node.layer + "] ";
    throw Error(error.kind(), place + "gradient of " + node.name + " (" +
                                  std::string(node.op->name()) + "): " + error.message());
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId gradient = context.gradient(static_cast<int>(i));
    if (gradient.valid()) gradients.add(node.inputs[i], gradient);
  }
}

// The type of sums over a bfloat16 value's uses.
ValueType widened(ValueType type) {
  if (type.dtype == DType::kBFloat16) type.dtype = DType::kFloat32;
  return type;
}

}  // namespace

GradientContext::GradientContext(GraphBuilder& builder, NodeId node,
                                 std::span<const ValueId> output_gradients,
                                 std::vector<bool> wanted)
    : builder_(builder),
      node_id_(node),
      node_(builder.graph().node(node)),
      input_types_(input_types(builder.graph(), node)),
      output_types_(output_types(builder.graph(), node)),
      output_gradients_(output_gradients.begin(), output_gradients.end()),
      wanted_(std::move(wanted)),
      input_gradients_(node_.inputs.size()) {}

void GradientContext::set_gradient(int input, ValueId gradient) {
  PLIMSOLL_CHECK(wants(input), "nobody asked for this gradient of " + node_.name);
  PLIMSOLL_CHECK(
      builder_.type(gradient) == input_type(input) ||
          builder_.type(gradient) == widened(input_type(input)),
      fmt::format("a gradient of {} has another type than its input: {} for {}", node_.name,
                  to_string(builder_.type(gradient).shape), to_string(input_type(input).shape)));
  input_gradients_[static_cast<size_t>(input)] = gradient;
}

std::string GradientContext::name(std::string_view suffix) const {
  return node_.name + "/" + std::string(suffix);
}

std::vector<ValueId> add_gradients(GraphBuilder& builder, ValueId loss,
                                   std::span<const ValueId> targets) {
  const ValueType loss_type = builder.type(loss);
  PLIMSOLL_CHECK(loss_type.shape.rank() == 0, "the loss of a gradient is a scalar");
  const std::string layer_before = builder.layer();
  const Stage stage_before = builder.stage();
  builder.set_stage(Stage::kBackward);

  const size_t node_count = builder.graph().nodes.size();
  const std::vector<bool> wanted = find_wanted(builder.graph(), targets);
  Accumulator gradients(builder, wanted.size());
  if (wanted[loss.index()]) {
    builder.set_layer("");
    gradients.add(loss, builder.call("ones", builder.graph().value(loss).name + "/seed", {},
                                     {{"shape", std::vector<int64_t>{}},
                                      {"dtype", std::string(to_string(loss_type.dtype))}}));
    for (size_t i = node_count; i-- > 0;) {
      differentiate(builder, NodeId(i), wanted, gradients);
    }
  }
  builder.set_layer(layer_before);
  builder.set_stage(stage_before);

  std::vector<ValueId> result;
  result.reserve(targets.size());
  for (ValueId target : targets) result.push_back(gradients.get(target));
  return result;
}

}  // namespace plimsoll::graph
