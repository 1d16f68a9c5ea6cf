#include "layers/model/layer.h"

#include "base/error.h"
#include "base/format.h"
#include "layers/config/call_sites.h"
#include "layers/config/regularizers.h"
#include "layers/model/expansion.h"
#include "layers/model/masking.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

[[noreturn]] void refuse_at(const std::string& layer, const std::string& expected,
                            const std::string& received, std::string_view next_step) {
  std::string message = "[" + layer + "] expected " + expected + ", received " + received + ".";
  if (!next_step.empty()) message += " " + std::string(next_step);
  throw Error(ErrorKind::kModel, message);
}

}  // namespace

Layer::Layer(ConfigReader& reader) : class_name_(reader.class_name()) {
  name_ = reader.text("name");
  trainable_ = reader.flag("trainable", true);
  const std::string policy = reader.policy("dtype");
  computes_in_bfloat16_ = policy == kMixedBFloat16;
  asks_for_float16_ = policy == kMixedFloat16;
  activity_regularizer_ = read_activity_regularizer(reader);
}

Layer::Layer(std::string_view class_name, std::string name)
    : class_name_(class_name), name_(std::move(name)) {}

void Layer::set_activity_regularizer(Config regularizer) {
  activity_regularizer_ = complete_regularizer(regularizer);
}

void Layer::refuse(const std::string& expected, const std::string& received,
                   std::string_view next_step) const {
  refuse_at(name_, expected, received, next_step);
}

Shape Layer::one_input(const LayerContext& context, std::span<const ValueId> inputs,
                       int rank) const {
  if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
  const ValueType type = context.type(inputs[0]);
  if (!is_floating(type.dtype)) {
    refuse("numbers of floating point", std::string(to_string(type.dtype)),
           "Put a Rescaling layer before it.");
  }
  const int received = type.shape.rank();
  if (rank != 0 && received != rank) {
    refuse(fmt::format("rank {}", rank), to_string(type.shape),
           "Add a Reshape before it, or check the model's input shape.");
  }
  if (rank == 0 && received < 2) {
    refuse("at least one dimension after the batch", to_string(type.shape),
           "Add a Reshape before it, or check the model's input shape.");
  }
  return type.shape;
}

std::vector<ValueId> Layer::call_by_steps(LayerContext& context, std::span<const ValueId> inputs,
                                          int64_t steps) const {
  constexpr int64_t kMostSteps = 128;
  if (inputs.size() != 1) context.refuse("one input", std::to_string(inputs.size()), "");
  if (steps > kMostSteps) {
    refuse(fmt::format("at most {} steps, those of all TimeDistributed around it together, where "
                       "masked statistics are taken of each step",
                       kMostSteps),
           std::to_string(steps),
           "End the mask before the TimeDistributed, by a Reshape, cut the sequences shorter, or "
           "put a LayerNormalization in its place.");
  }
  const auto take_step = [&](ValueId all, int64_t step) {
    const ValueId part = context.emit("slice", {all}, {{"axis", 1}, {"begin", step}, {"count", 1}});
    std::vector<int64_t> dims = ops::sample_dims(context.type(part).shape);
    dims.erase(dims.begin());
    return context.emit("reshape", {part}, {{"shape", dims}});
  };
  const ValueId x = context.emit("unfold_batch", {inputs[0]}, {{"steps", steps}});
  ValueId mask = context.mask(0);
  if (mask.valid()) mask = context.emit("unfold_batch", {mask}, {{"steps", steps}});
  std::vector<ValueId> outputs;
  for (int64_t step = 0; step < steps; ++step) {
    const ValueId own_mask = mask.valid() ? take_step(mask, step) : ValueId();
    const ValueId own = take_step(x, step);
    LayerContext inner = context.inside("", {.masks = std::span(&own_mask, 1)});
    const ValueId y = call(inner, std::span(&own, 1))[0];
    std::vector<int64_t> dims = ops::sample_dims(context.type(y).shape);
    dims.insert(dims.begin(), 1);
    outputs.push_back(context.emit("reshape", {y}, {{"shape", dims}}));
  }
  const ValueId all =
      outputs.size() == 1 ? outputs[0] : context.emit("concat", outputs, {{"axis", 1}});
  return {context.emit("fold_batch", {all})};
}

ValueId LayerContext::emit(std::string_view op, std::vector<ValueId> inputs,
                           Attributes attributes) {
  return expansion_.builder().call(op, layer_.name() + "/" + prefix_ + std::string(op),
                                   expansion_.operands(layer_, op, std::move(inputs)),
                                   std::move(attributes));
}

std::vector<ValueId> LayerContext::emit_all(std::string_view op, std::vector<ValueId> inputs,
                                            Attributes attributes) {
  graph::GraphBuilder& builder = expansion_.builder();
  const graph::NodeId node =
      builder.add(op, layer_.name() + "/" + prefix_ + std::string(op),
                  expansion_.operands(layer_, op, std::move(inputs)), std::move(attributes));
  return builder.graph().node(node).outputs;
}

ValueType LayerContext::type(ValueId value) const { return expansion_.builder().type(value); }

bool LayerContext::training() const { return expansion_.training(); }

int64_t LayerContext::batch_norm_group() const { return expansion_.batch_norm_group(); }

ValueId LayerContext::weight(std::string_view name) {
  return expansion_.weight(layer_, prefix_ + std::string(name));
}

void LayerContext::replace_weight(std::string_view name, ValueId value) {
  if (expansion_.replace_weight(layer_, prefix_ + std::string(name), value)) return;
  refuse("one call", "a second one",
         "Its calls change its weights: use a layer of its own for each place.");
}

ValueId LayerContext::statistic(std::string_view name) {
  return expansion_.statistic(layer_, prefix_ + std::string(name));
}

void LayerContext::set_statistic(std::string_view name, ValueId next) {
  expansion_.set_statistic(layer_, prefix_ + std::string(name), next);
}

int LayerContext::call_sites() const { return expansion_.call_sites(layer_); }

void LayerContext::set_call_sites(int count) { expansion_.set_call_sites(layer_, count); }

ValueId LayerContext::carried(std::string_view name, int64_t columns) {
  if (expansion_.carried_rows() == 0) {
    refuse("a stateful layer that the model calls itself, or in Bidirectional",
           "one in another layer", "Save the model with stateful=False.");
  }
  return emit("take_rows", {expansion_.carried(layer_, prefix_ + std::string(name), columns)});
}

void LayerContext::set_carried(std::string_view name, ValueId next) {
  const ValueId rows = emit("put_rows", {next}, {{"count", expansion_.carried_rows()}});
  expansion_.set_carried(layer_, prefix_ + std::string(name), rows);
}

LayerContext LayerContext::inside(std::string_view prefix, CallScope scope) const {
  LayerContext inner(expansion_, layer_, scope);
  inner.prefix_ = prefix_ + std::string(prefix);
  return inner;
}

CallResult LayerContext::call(const Layer& inner, std::string_view prefix,
                              std::span<const ValueId> inputs, std::span<const ValueId> masks,
                              const Config& arguments) {
  return expansion_.run(inner, inside(prefix, {}), inputs, masks, arguments);
}

void LayerContext::take_mask_off(ValueId value) { expansion_.take_mask_off(value); }

void LayerContext::put_mask_on(ValueId value) { expansion_.put_mask_on(value); }

ValueId LayerContext::mask(size_t input) const {
  return input < scope_.masks.size() ? scope_.masks[input] : ValueId();
}

void LayerContext::set_mask(size_t output, ValueId mask) {
  if (scope_.output_masks == nullptr) return;
  if (scope_.output_masks->size() <= output) scope_.output_masks->resize(output + 1);
  (*scope_.output_masks)[output] = mask;
}

ValueId LayerContext::either_mask(ValueId a, ValueId b) {
  return layers::either_mask(expansion_.builder(), layer_.name() + "/" + prefix_ + "mask", a, b);
}

const Config& LayerContext::arguments() const {
  static const Config none;
  return scope_.arguments == nullptr ? none : *scope_.arguments;
}

ValueId LayerContext::constant(const ConstantData& data) {
  return expansion_.constant(layer_, prefix_, data);
}

void LayerContext::remember_logits(ValueId output, ValueId logits, Probabilities made_by) {
  expansion_.remember_logits(output, logits, made_by);
}

Probabilities LayerContext::made_by(ValueId value) const { return expansion_.made_by(value); }

ValueId LayerContext::logits_of(ValueId value) const { return expansion_.logits_of(value); }

ValueId LayerContext::without_logits(ValueId x) {
  if (!expansion_.knows_logits_of(x)) return x;
  return emit("reshape", {x}, {{"shape", ops::sample_dims(type(x).shape)}});
}

ValueId LayerContext::channels_last(ValueId x) { return expansion_.channels_last(layer_, x); }

ValueId LayerContext::channels_first(ValueId x) { return expansion_.channels_first(layer_, x); }

ValueId LayerContext::image(ValueId sequence) {
  const ValueId known = known_image(sequence);
  if (known.valid()) return known;
  const Shape shape = type(sequence).shape;
  const std::vector<int64_t> dims = {shape[1].count, 1, shape[2].count};
  const ValueId image = emit("reshape", {sequence}, {{"shape", dims}});
  expansion_.remember_image(sequence, image);
  return image;
}

ValueId LayerContext::sequence(ValueId image) {
  const Shape shape = type(image).shape;
  const std::vector<int64_t> dims = {shape[1].count, shape[3].count};
  const ValueId sequence = emit("reshape", {image}, {{"shape", dims}});
  expansion_.remember_image(sequence, image);
  return sequence;
}

ValueId LayerContext::known_image(ValueId sequence) const {
  return expansion_.known_image(sequence);
}

const graph::Node* LayerContext::maker(ValueId value) const {
  const graph::Graph& graph = expansion_.builder().graph();
  const graph::NodeId node = graph.value(value).producer;
  return node.valid() ? &graph.node(node) : nullptr;
}

int64_t LayerContext::call_site() { return expansion_.call_site(layer_); }

void LayerContext::refuse(const std::string& expected, const std::string& received,
                          std::string_view next_step) const {
  refuse_at(layer_.name(), expected, received, next_step);
}

}  // namespace plimsoll::layers
