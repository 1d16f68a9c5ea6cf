// TimeDistributed: a layer, or a model, on each step of a sequence.
//
// Steps are as good as samples to a layer that looks at each sample alone: all of them are one
// batch. In training, a layer that takes statistics of the batch takes those of each step, and
// moves its averages once a step, in order, as Keras does by calling it step by step
// (call_by_steps).

#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/sequence/inner_model.h"

namespace plimsoll::layers {
namespace {

class TimeDistributed final : public Layer {
 public:
  static constexpr std::string_view kClassName = "TimeDistributed";

  explicit TimeDistributed(ConfigReader& reader) : Layer(reader) {
    const NamedConfig inner = reader.named("layer", "a layer");
    layer_ = make_inner_layer(inner.class_name, inner.config);
    if (layer_->input_type()) reader.refuse("layer", "a layer that computes", inner.class_name);
    if (layer_->keeps_calls_apart()) {
      reader.refuse("layer", "a layer that looks at each sample alone", inner.class_name,
                    "Call it on the whole sequence.");
    }
    if (layer_->penalizes_activity()) {
      reader.refuse("layer", "a layer without activity_regularizer", inner.class_name,
                    "Put an ActivityRegularization after this one.");
    }
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() < 3) return {};
    const ValueType step = step_type(inputs[0]);
    std::vector<Weight> weights;
    for (Weight weight : layer_->weights(std::span(&step, 1))) {
      weight.name = kPrefix + weight.name;
      weight.trainable = weight.trainable && layer_->trainable();
      weights.push_back(std::move(weight));
    }
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = checked_shape(context, inputs);
    const ValueId mask = context.mask(0);
    context.set_mask(0, mask);
    return {call_inner(context, inputs[0], mask, shape[1].count, 1)};
  }

  // Steps of steps lie one after the other.
  std::vector<ValueId> call_by_steps(LayerContext& context, std::span<const ValueId> inputs,
                                     int64_t steps) const override {
    const Shape shape = checked_shape(context, inputs);
    context.set_mask(0, context.mask(0));
    return {call_inner(context, inputs[0], context.mask(0), shape[1].count, steps)};
  }

  bool mixes_samples() const override { return layer_->mixes_samples(); }

 private:
  static constexpr const char* kPrefix = "layer/";

  Shape checked_shape(const LayerContext& context, std::span<const ValueId> inputs) const {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    const Shape shape = context.type(inputs[0]).shape;
    if (shape.rank() < 3) {
      refuse("a sequence of steps, of rank 3 or more", to_string(shape),
             "Call the layer itself on it.");
    }
    if (const ValueId mask = context.mask(0); mask.valid()) {
      const Shape masked = context.type(mask).shape;
      if (masked.rank() < 2 || masked[1] != shape[1]) {
        refuse(fmt::format("a mask of the steps of {}", to_string(shape)), to_string(masked),
               "End the mask before the layer, by a Reshape.");
      }
    }
    return shape;
  }

  // `outer`: steps of the layers around this one, whose rows are this one's samples.
  ValueId call_inner(LayerContext& context, ValueId x, ValueId mask, int64_t steps,
                     int64_t outer) const {
    const ValueId rows = context.emit("fold_batch", {x});
    const ValueId folded = mask.valid() ? context.emit("fold_batch", {mask}) : ValueId();
    LayerContext inner = context.inside(kPrefix, {.masks = std::span(&folded, 1)});
    const bool by_steps = context.training() && layer_->mixes_samples();
    const std::vector<ValueId> outputs =
        by_steps ? layer_->call_by_steps(inner, std::span(&rows, 1), steps * outer)
                 : layer_->call(inner, std::span(&rows, 1));
    if (outputs.size() != 1) {
      refuse("a layer with one output", std::to_string(outputs.size()), "");
    }
    return context.emit("unfold_batch", {outputs[0]}, {{"steps", steps}});
  }

  static ValueType step_type(const ValueType& type) {
    std::vector<Dim> dims(type.shape.dims().begin() + 1, type.shape.dims().end());
    dims[0] = Dim::batch(type.shape[1].count);
    return {type.dtype, Shape(std::move(dims))};
  }

  std::shared_ptr<const Layer> layer_;
};

}  // namespace

std::shared_ptr<const Layer> make_time_distributed(const Config& config) {
  return construct_layer<TimeDistributed>(config);
}

}  // namespace plimsoll::layers
