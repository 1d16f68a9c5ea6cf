// Attention: queries look at keys by their dot product, in one head without projections.
// AdditiveAttention: by the sum of tanh(query + key), whose scores are held as a whole.

#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation_call.h"
#include "layers/model/call_arguments.h"

namespace plimsoll::layers {
namespace {

// What a call is made on.
struct Looking {
  ValueId query, key, value;
  ValueId query_mask, value_mask;
  bool causal = false;
};

class OneHead : public Layer {
 protected:
  explicit OneHead(ConfigReader& reader) : Layer(reader) {}

  // Reads dropout and seed.
  void read_dropout(ConfigReader& reader) {
    dropout_ = reader.number("dropout", 0.0);
    if (!(dropout_ >= 0 && dropout_ < 1)) {
      reader.refuse("dropout", "0 to below 1", std::to_string(dropout_));
    }
    const Config seed = reader.value("seed", Config());
    if (!seed.is_null() && !seed.is_int()) {
      reader.refuse("seed", "an integer or null", seed.to_json());
    }
  }

  bool drops(const LayerContext& context) const { return context.training() && dropout_ > 0; }
  double dropout() const { return dropout_; }

  Looking read_call(LayerContext& context, std::span<const ValueId> inputs, bool causal) const {
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
    for (size_t i : at) one_input(context, inputs.subspan(i, 1), 3);
    context.set_mask(0, masks[0]);
    return {inputs[at[0]], inputs[at.back()], inputs[at[1]], masks[0], masks[1], causal};
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

  double dropout_ = 0;
};

class Attention final : public OneHead {
 public:
  static constexpr std::string_view kClassName = "Attention";

  explicit Attention(ConfigReader& reader) : OneHead(reader) {
    use_scale_ = reader.flag("use_scale", false);
    const std::string mode = reader.text("score_mode", "dot");
    if (mode != "dot") reader.refuse("score_mode", "\"dot\"", mode, "Use dot products.");
    read_dropout(reader);
    const Config causal = reader.legacy("causal");  // before Keras 2.10 an option of the layer
    causal_ = causal.is_bool() && causal.as_bool();
  }

  std::vector<Weight> weights(std::span<const ValueType>) const override {
    if (!use_scale_) return {};
    return {{"scale", {}, complete_initializer("ones"), Config(), true}};
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Looking at = read_call(context, inputs, causal_);
    ValueId query = at.query;
    if (use_scale_) query = context.emit("multiply", {query, context.weight("scale")});
    std::vector<ValueId> operands = {one_head(context, query), one_head(context, at.key),
                                     one_head(context, at.value)};
    Attributes attributes{
        {"scale", 1.0}, {"causal", at.causal}, {"key_masked", at.value_mask.valid()}};
    if (at.value_mask.valid()) operands.push_back(at.value_mask);
    if (drops(context)) {
      attributes.set("rate", dropout());
      attributes.set("site", context.call_site());
    }
    const ValueId y = context.emit_all("attention", operands, attributes)[0];
    const Shape shape = context.type(y).shape;
    const ValueId rows = context.emit(
        "reshape", {y}, {{"shape", std::vector<int64_t>{shape[1].count, shape[3].count}}});
    if (!at.query_mask.valid()) return {rows};
    return {context.emit("apply_mask", {rows, at.query_mask})};
  }

 private:
  static ValueId one_head(LayerContext& context, ValueId x) {
    const Shape shape = context.type(x).shape;
    return context.emit("reshape", {x},
                        {{"shape", std::vector<int64_t>{shape[1].count, 1, shape[2].count}}});
  }

  bool use_scale_ = false;
  bool causal_ = false;
};

class AdditiveAttention final : public OneHead {
 public:
  static constexpr std::string_view kClassName = "AdditiveAttention";

  explicit AdditiveAttention(ConfigReader& reader) : OneHead(reader) {
    use_scale_ = reader.flag("use_scale", true);
    read_dropout(reader);
    const Config causal = reader.legacy("causal");
    causal_ = causal.is_bool() && causal.as_bool();
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (!use_scale_ || inputs.empty() || inputs[0].shape.rank() != 3) return {};
    return {{"scale",
             {inputs[0].shape[2].count},
             complete_initializer("glorot_uniform"),
             Config(),
             true}};
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Looking at = read_call(context, inputs, causal_);
    ValueId shares =
        context.emit("softmax", {masked(context, at, scores(context, at))}, {{"axis", -1}});
    if (drops(context)) {
      shares =
          context.emit("dropout", {shares}, {{"rate", dropout()}, {"site", context.call_site()}});
    }
    const ValueId y = context.emit("batch_matmul", {shares, at.value},
                                   {{"transpose_left", false}, {"transpose_right", false}});
    if (!at.query_mask.valid()) return {y};
    return {context.emit("apply_mask", {y, at.query_mask})};
  }

 private:
  // Σ scale · tanh(query + key), (batch, queries, keys).
  ValueId scores(LayerContext& context, const Looking& at) const {
    const std::vector<int64_t> query = dims_of(context, at.query);
    const std::vector<int64_t> key = dims_of(context, at.key);
    if (query[1] != key[1]) {
      context.refuse("queries and keys of one size", fmt::format("{} and {}", query[1], key[1]),
                     "Project one of them first.");
    }
    const ValueId sums =
        combined(context, "add", reshaped(context, at.query, {query[0], 1, query[1]}),
                 reshaped(context, at.key, {1, key[0], key[1]}));
    const ValueId bent = context.emit("activation", {sums}, {{"kind", "tanh"}});
    ValueId y;
    if (use_scale_) {
      const ValueId column = context.emit("reshape", {context.weight("scale")},
                                          {{"shape", std::vector<int64_t>{query[1], 1}}});
      y = context.emit("dense", {bent, column}, {{"units", 1}});
    } else {
      y = context.emit("sum_to", {bent},
                       {{"shape", std::vector<int64_t>{query[0], key[0], 1}}, {"batched", true}});
    }
    return reshaped(context, y, {query[0], key[0]});
  }

  // What is not looked at has a score so much lower, as in Keras.
  static ValueId masked(LayerContext& context, const Looking& at, ValueId scores) {
    constexpr double kMasked = -1e9;
    ValueId seen;
    if (at.causal) {
      seen = compared(context,
                      context.emit("subtract", {positions_along(context, scores, 2),
                                                positions_along(context, scores, 1)}),
                      "less_equal", 0);
    }
    if (at.value_mask.valid()) {
      const std::vector<int64_t> dims = dims_of(context, scores);
      const ValueId row = reshaped(context, at.value_mask, {1, dims[1]});
      const ValueId all = context.emit("broadcast", {row}, {{"shape", dims}});
      seen = seen.valid() ? context.emit("logical", {seen, all}, {{"kind", "and"}}) : all;
    }
    if (!seen.valid()) return scores;
    return chosen(context, seen, scores, scaled(context, scores, 1, kMasked));
  }

  bool use_scale_ = true;
  bool causal_ = false;
};

}  // namespace

std::shared_ptr<const Layer> make_attention(const Config& config) {
  return construct_layer<Attention>(config);
}
std::shared_ptr<const Layer> make_additive_attention(const Config& config) {
  return construct_layer<AdditiveAttention>(config);
}

}  // namespace plimsoll::layers
