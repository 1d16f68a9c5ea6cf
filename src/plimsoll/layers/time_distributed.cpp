// TimeDistributed: a layer, or a model, on each step of a sequence.
//
// Steps are as good as samples to a layer that looks at each sample alone: all of them are one
// batch. In training, a layer that takes statistics of the batch takes those of each step, and
// moves its averages once a step, in order, as Keras does by calling it step by step: so do we.

#include "layers/all_layers.h"
#include "layers/inner_model.h"
#include "layers/masking.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

// Steps that a layer is called on one by one, at most: each is a part of the graph.
constexpr int64_t kMostSteps = 1024;

class TimeDistributed final : public Layer {
 public:
  static constexpr std::string_view kClassName = "TimeDistributed";

  explicit TimeDistributed(ConfigReader& reader) : Layer(reader) {
    const Config object = reader.value("layer", Config());
    const Config* name = object.is_object() ? object.find("class_name") : nullptr;
    const Config* config = object.is_object() ? object.find("config") : nullptr;
    if (name == nullptr || !name->is_string() || config == nullptr) {
      reader.refuse("layer", "a layer", object.to_json());
    }
    layer_ = make_inner_layer(name->as_string(), *config);
    if (layer_->input_type()) reader.refuse("layer", "a layer that computes", name->as_string());
    if (layer_->penalizes_activity()) {
      reader.refuse("layer", "a layer without activity_regularizer", name->as_string(),
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
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    const Shape shape = context.type(inputs[0]).shape;
    if (shape.rank() < 3) {
      refuse("a sequence of steps, of rank 3 or more", to_string(shape),
             "Call the layer itself on it.");
    }
    const ValueId mask = context.mask(0);
    if (mask.valid()) {
      const Shape masked = context.type(mask).shape;
      if (masked.rank() < 2 || masked[1] != shape[1]) {
        refuse("a mask of the steps of " + to_string(shape), to_string(masked),
               "End the mask before the layer, by a Reshape.");
      }
    }
    context.set_mask(0, mask);
    if (context.training() && layer_->mixes_samples()) {
      return {call_each_step(context, inputs[0], mask, shape[1].count)};
    }
    const ValueId rows = context.emit("fold_batch", {inputs[0]});
    const ValueId folded = mask.valid() ? context.emit("fold_batch", {mask}) : ValueId();
    return {context.emit("unfold_batch", {call_on(context, rows, folded)},
                         {{"steps", shape[1].count}})};
  }

  bool mixes_samples() const override { return layer_->mixes_samples(); }

 private:
  static constexpr const char* kPrefix = "layer/";

  static ValueType step_type(const ValueType& type) {
    std::vector<Dim> dims(type.shape.dims().begin() + 1, type.shape.dims().end());
    dims[0] = Dim::batch(type.shape[1].count);
    return {type.dtype, Shape(std::move(dims))};
  }

  ValueId call_on(LayerContext& context, ValueId x, ValueId mask) const {
    LayerContext inner = context.inside(kPrefix, {.masks = std::span(&mask, 1)});
    const std::vector<ValueId> outputs = layer_->call(inner, std::span(&x, 1));
    if (outputs.size() != 1) {
      refuse("a layer with one output", std::to_string(outputs.size()), "");
    }
    return outputs[0];
  }

  ValueId call_each_step(LayerContext& context, ValueId x, ValueId mask, int64_t steps) const {
    if (steps > kMostSteps) {
      refuse("at most " + std::to_string(kMostSteps) + " steps of a layer with statistics",
             std::to_string(steps), "Use a layer that looks at each sample alone.");
    }
    std::vector<ValueId> outputs;
    for (int64_t step = 0; step < steps; ++step) {
      const ValueId own_mask = mask.valid() ? take_step(context, mask, step) : ValueId();
      const ValueId y = call_on(context, take_step(context, x, step), own_mask);
      std::vector<int64_t> dims = ops::sample_dims(context.type(y).shape);
      dims.insert(dims.begin(), 1);
      outputs.push_back(context.emit("reshape", {y}, {{"shape", dims}}));
    }
    return outputs.size() == 1 ? outputs[0] : context.emit("concat", outputs, {{"axis", 1}});
  }

  static ValueId take_step(LayerContext& context, ValueId x, int64_t step) {
    const ValueId part = context.emit("slice", {x}, {{"axis", 1}, {"begin", step}, {"count", 1}});
    std::vector<int64_t> dims = ops::sample_dims(context.type(part).shape);
    dims.erase(dims.begin());
    return context.emit("reshape", {part}, {{"shape", dims}});
  }

  std::shared_ptr<const Layer> layer_;
};

}  // namespace

std::shared_ptr<const Layer> make_time_distributed(const Config& config) {
  return construct_layer<TimeDistributed>(config);
}

}  // namespace plimsoll::layers
