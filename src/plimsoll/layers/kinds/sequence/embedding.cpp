// Embedding: a row of a trained table for each integer; with mask_zero, zeros do not count.

#include "layers/config/initializers.h"
#include "layers/config/regularizers.h"
#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class Embedding final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Embedding";

  explicit Embedding(ConfigReader& reader) : Layer(reader) {
    input_dim_ = reader.integer("input_dim", 1);
    output_dim_ = reader.integer("output_dim", 1);
    initializer_ = read_initializer(reader, "embeddings_initializer", "uniform");
    regularizer_ = read_regularizer(reader, "embeddings_regularizer");
    reader.refuse_unless_empty("embeddings_constraint",
                               "Regularize the table instead (embeddings_regularizer).");
    mask_zero_ = reader.flag("mask_zero", false);
    reader.legacy("input_length");
    reader.refuse_unless_empty("quantization_config", "Train the layer in float32.");
    reader.refuse_unless_empty("lora_rank", "Train the layer whole.");
    reader.refuse_unless_empty("lora_alpha", "Train the layer whole.");
    reader.refuse_unless_empty("sparse", "Train the layer with a dense gradient.");
  }

  std::vector<Weight> weights(std::span<const ValueType>) const override {
    return {{"embeddings", {input_dim_, output_dim_}, initializer_, regularizer_, true}};
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    ValueId numbers = inputs[0];
    if (!is_integer(context.type(numbers).dtype)) {
      numbers = context.emit("cast", {numbers}, {{"dtype", "int32"}});
    }
    if (mask_zero_) {
      context.set_mask(0,
                       context.emit("compare", {numbers}, {{"kind", "not_equal"}, {"value", 0.0}}));
    } else {
      context.set_mask(0, ValueId());
    }
    return {context.emit("embedding", {numbers, context.weight("embeddings")})};
  }

 private:
  int64_t input_dim_ = 1;
  int64_t output_dim_ = 1;
  Config initializer_;
  Config regularizer_;
  bool mask_zero_ = false;
};

}  // namespace

std::shared_ptr<const Layer> make_embedding(const Config& config) {
  return construct_layer<Embedding>(config);
}

}  // namespace plimsoll::layers
