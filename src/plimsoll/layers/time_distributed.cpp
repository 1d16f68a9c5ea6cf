// TimeDistributed: a layer on each step of a sequence, as if steps were samples.

#include "layers/all_layers.h"
#include "layers/masking.h"

namespace plimsoll::layers {
namespace {

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
    layer_ = make_layer(name->as_string(), *config);
    if (layer_->input_type()) reader.refuse("layer", "a layer that computes", name->as_string());
    if (!layer_->activity_regularizer().is_null()) {
      reader.refuse("layer", "a layer without activity_regularizer", name->as_string(),
                    "Put an ActivityRegularization behind this one.");
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
    const int64_t steps = shape[1].count;
    const ValueId rows = context.emit("fold_batch", {inputs[0]});
    LayerContext inner = context.inside(kPrefix, {});
    const std::vector<ValueId> outputs = layer_->call(inner, std::span(&rows, 1));
    if (outputs.size() != 1) {
      refuse("a layer with one output", std::to_string(outputs.size()), "");
    }
    const ValueId y = context.emit("unfold_batch", {outputs[0]}, {{"steps", steps}});
    context.set_mask(0, context.mask(0));
    return {y};
  }

 private:
  static constexpr const char* kPrefix = "layer/";

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
