// Attention: queries look at keys by their dot product, in one head without projections.

#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"
#include "layers/model/call_arguments.h"

namespace plimsoll::layers {
namespace {

class Attention final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Attention";

  explicit Attention(ConfigReader& reader) : Layer(reader) {
    use_scale_ = reader.flag("use_scale", false);
    const std::string mode = reader.text("score_mode", "dot");
    if (mode != "dot") reader.refuse("score_mode", "\"dot\"", mode, "Use dot products.");
    dropout_ = reader.number("dropout", 0.0);
    if (!(dropout_ >= 0 && dropout_ < 1)) {
      reader.refuse("dropout", "0 to below 1", std::to_string(dropout_));
    }
    const Config seed = reader.value("seed", Config());
    if (!seed.is_null() && !seed.is_int()) {
      reader.refuse("seed", "an integer or null", seed.to_json());
    }
    const Config causal = reader.legacy("causal");  // before Keras 2.10 an option of the layer
    causal_ = causal.is_bool() && causal.as_bool();
  }

  std::vector<Weight> weights(std::span<const ValueType>) const override {
    if (!use_scale_) return {};
    return {{"scale", {}, complete_initializer("ones"), Config(), true}};
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    bool causal = causal_;
    std::vector<size_t> at;
    std::vector<ValueId> masks;
    if (context.arguments().is_null()) {
      for (size_t i = 0; i < inputs.size(); ++i) at.push_back(i);
      for (size_t i : at) masks.push_back(context.mask(i));
    } else {
      const CallArguments arguments(
          context, inputs.size(),
          {"inputs", "mask", "training", "return_attention_scores", "use_causal_mask"});
      at = arguments.tensors("inputs");
      causal = causal || arguments.flag("use_causal_mask", false);
      if (arguments.flag("return_attention_scores", false)) {
        context.refuse("a call on values alone", "a call for scores", "They are never stored.");
      }
      masks = given_masks(context, inputs, arguments.get("mask"), at);
    }
    if (at.size() < 2 || at.size() > 3) {
      refuse("a query, a value and perhaps a key", std::to_string(at.size()), "");
    }
    const size_t key_input = at[at.size() - 1];
    for (size_t i : at) one_input(context, inputs.subspan(i, 1), 3);
    ValueId query = inputs[at[0]];
    if (use_scale_) query = context.emit("multiply", {query, context.weight("scale")});
    std::vector<ValueId> operands = {one_head(context, query), one_head(context, inputs[key_input]),
                                     one_head(context, inputs[at[1]])};
    const ValueId value_mask = masks[1];
    Attributes attributes{{"scale", 1.0}, {"causal", causal}, {"key_masked", value_mask.valid()}};
    if (value_mask.valid()) operands.push_back(value_mask);
    if (context.training() && dropout_ > 0) {
      attributes.set("rate", dropout_);
      attributes.set("site", context.call_site());
    }
    const ValueId y = context.emit_all("attention", operands, attributes)[0];
    const Shape shape = context.type(y).shape;
    const ValueId rows = context.emit(
        "reshape", {y}, {{"shape", std::vector<int64_t>{shape[1].count, shape[3].count}}});
    const ValueId query_mask = masks[0];
    context.set_mask(0, query_mask);
    if (!query_mask.valid()) return {rows};
    return {context.emit("apply_mask", {rows, query_mask})};
  }

 private:
  // Masks of query, value and key that were given by hand, a list with null where there is none;
  // otherwise those of the inputs.
  static std::vector<ValueId> given_masks(LayerContext& context, std::span<const ValueId> inputs,
                                          const Config& given, std::span<const size_t> at) {
    std::vector<ValueId> masks;
    for (size_t i = 0; i < at.size(); ++i) {
      if (!given.is_array()) {
        masks.push_back(context.mask(at[i]));
        continue;
      }
      const bool named = i < given.as_array().size() && !given.as_array()[i].is_null();
      const int64_t input = named ? tensor_index(given.as_array()[i]) : -1;
      if (named && (input < 0 || input >= static_cast<int64_t>(inputs.size()))) {
        context.refuse("tensors as masks", given.as_array()[i].to_json(), "");
      }
      masks.push_back(named ? as_bool(context, inputs[static_cast<size_t>(input)]) : ValueId());
    }
    return masks;
  }

  static ValueId one_head(LayerContext& context, ValueId x) {
    const Shape shape = context.type(x).shape;
    return context.emit("reshape", {x},
                        {{"shape", std::vector<int64_t>{shape[1].count, 1, shape[2].count}}});
  }

  bool use_scale_ = false;
  bool causal_ = false;
  double dropout_ = 0;
};

}  // namespace

std::shared_ptr<const Layer> make_attention(const Config& config) {
  return construct_layer<Attention>(config);
}

}  // namespace plimsoll::layers
