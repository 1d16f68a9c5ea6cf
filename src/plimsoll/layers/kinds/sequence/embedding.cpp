// Embedding: a row of a trained table for each integer; with mask_zero, zeros do not count.
// ReversibleEmbedding: back from rows to a score for each integer, too.

#include "layers/config/initializers.h"
#include "layers/config/regularizers.h"
#include "layers/kinds/all_layers.h"
#include "layers/model/call_arguments.h"

namespace plimsoll::layers {
namespace {

class Lookup : public Layer {
 public:
  std::vector<Weight> weights(std::span<const ValueType>) const override {
    return {{"embeddings", {input_dim_, output_dim_}, initializer_, regularizer_, true}};
  }

 protected:
  explicit Lookup(ConfigReader& reader) : Layer(reader) {
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

  std::vector<ValueId> look_up(LayerContext& context, ValueId numbers) const {
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

  int64_t input_dim_ = 1;
  int64_t output_dim_ = 1;
  Config initializer_;
  Config regularizer_;

 private:
  bool mask_zero_ = false;
};

class Embedding final : public Lookup {
 public:
  static constexpr std::string_view kClassName = "Embedding";

  explicit Embedding(ConfigReader& reader) : Lookup(reader) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    return look_up(context, inputs[0]);
  }
};

// The same, and with reverse=True a value for each row of the table: x · tableᵀ, or by a table of
// its own.
class ReversibleEmbedding final : public Lookup {
 public:
  static constexpr std::string_view kClassName = "ReversibleEmbedding";

  explicit ReversibleEmbedding(ConfigReader& reader) : Lookup(reader) {
    tied_ = reader.flag("tie_weights", true);
    reader.refuse_unless_empty("reverse_dtype", "Multiply in the layer's own type.");
    const std::optional<double> cap = reader.optional_number("logit_soft_cap");
    if (cap && !(*cap > 0)) {
      reader.refuse("logit_soft_cap", "a number above 0, or null", std::to_string(*cap));
    }
    cap_ = cap.value_or(0);
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    std::vector<Weight> weights = Lookup::weights(inputs);
    if (!tied_) {
      weights.push_back(
          {"reverse_embeddings", {output_dim_, input_dim_}, initializer_, Config(), true});
    }
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const CallArguments arguments(context, inputs.size(), {"inputs", "reverse"});
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    if (!arguments.flag("reverse", false)) return look_up(context, inputs[0]);
    one_input(context, inputs, 0);
    context.set_mask(0, ValueId());
    ValueId y = tied_ ? context.emit("dense_grad_input", {inputs[0], context.weight("embeddings")},
                                     {{"input_dim", input_dim_}})
                      : context.emit("dense", {inputs[0], context.weight("reverse_embeddings")},
                                     {{"units", input_dim_}});
    if (cap_ == 0) return {y};
    y = context.emit("scale_shift", {y}, {{"scale", 1 / cap_}, {"offset", 0.0}});
    y = context.emit("activation", {y}, {{"kind", "tanh"}});
    return {context.emit("scale_shift", {y}, {{"scale", cap_}, {"offset", 0.0}})};
  }

 private:
  bool tied_ = true;
  double cap_ = 0;  // 0: none
};

}  // namespace

std::shared_ptr<const Layer> make_embedding(const Config& config) {
  return construct_layer<Embedding>(config);
}
std::shared_ptr<const Layer> make_reversible_embedding(const Config& config) {
  return construct_layer<ReversibleEmbedding>(config);
}

}  // namespace plimsoll::layers
