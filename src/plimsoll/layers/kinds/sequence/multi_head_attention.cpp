// MultiHeadAttention: queries look at keys in several heads, each of its own projection.
//
// The projections are dense nodes on weights that Keras keeps by head, (D, H, K): their bytes are
// those of (D, H·K). The scores never exist as a whole (ops/attention.cpp). Masks come from the
// inputs' own masks, from the argument attention_mask, and from use_causal_mask. Values with
// several axes of positions, (batch, rows, columns, channels), are looked at as one list of
// positions. GroupedQueryAttention is the same with fewer heads of keys and values, each for
// several of the queries'.

#include <cmath>
#include <set>

#include "base/format.h"
#include "layers/config/initializers.h"
#include "layers/config/regularizers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/operation.h"
#include "layers/model/call_arguments.h"

namespace plimsoll::layers {
namespace {

class ManyHeads : public Layer {
 public:
  // In the order in which Keras builds them. Types are query, value and (where given) key.
  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.empty()) return {};
    for (const ValueType& type : inputs) {
      if (type.shape.rank() < 2) return {};
    }
    const ValueType& value = inputs[inputs.size() > 1 ? 1 : 0];
    const ValueType& key = inputs.size() > 2 && inputs[2].dtype == value.dtype ? inputs[2] : value;
    std::vector<Weight> weights;
    add_weights(weights, "query_dense", {last_of(inputs[0]), heads_, key_dim_}, {heads_, key_dim_});
    add_weights(weights, "key_dense", {last_of(key), key_heads_, key_dim_}, {key_heads_, key_dim_});
    if (gated_) {
      add_weights(weights, "gate_dense", {last_of(inputs[0]), heads_, key_dim_},
                  {heads_, key_dim_});
    }
    add_weights(weights, "value_dense", {last_of(value), key_heads_, value_dim_},
                {key_heads_, value_dim_});
    const int64_t columns = output_dim_ > 0 ? output_dim_ : last_of(inputs[0]);
    add_weights(weights, "output_dense", {heads_, value_dim_, columns}, {columns});
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Sources sources = find_sources(context, inputs);
    const Shape query_shape = context.type(inputs[sources.query_input]).shape;
    const ValueId q = project(context, sources.query, "query_dense", heads_, key_dim_);
    const ValueId k =
        for_all_heads(context, project(context, sources.key, "key_dense", key_heads_, key_dim_));
    const ValueId v = for_all_heads(
        context, project(context, sources.value, "value_dense", key_heads_, value_dim_));
    std::vector<ValueId> operands = {q, k, v};
    Attributes attributes{{"scale", 1.0 / std::sqrt(static_cast<double>(key_dim_))},
                          {"causal", sources.causal},
                          {"key_masked", sources.key_mask.valid()},
                          {"query_masked", sources.query_mask.valid()},
                          {"masked", sources.mask.valid()}};
    for (ValueId mask : {sources.key_mask, sources.query_mask, sources.mask}) {
      if (mask.valid()) operands.push_back(mask);
    }
    if (context.training() && dropout_ > 0) {
      attributes.set("rate", dropout_);
      attributes.set("site", context.call_site());
    }
    ValueId heads = context.emit_all("attention", operands, attributes)[0];
    if (gated_) heads = context.emit("multiply", {heads, gate(context, sources.query)});
    const int64_t length = context.type(sources.query).shape[1].count;
    const ValueId rows = context.emit(
        "reshape", {heads}, {{"shape", std::vector<int64_t>{length, heads_ * value_dim_}}});
    const int64_t columns = output_dim_ > 0 ? output_dim_ : last_of(context.type(sources.query));
    context.set_mask(0, context.mask(sources.query_input));
    const ValueId y = dense(context, rows, "output_dense", {heads_ * value_dim_, columns});
    if (query_shape.rank() == 3) return {y};
    std::vector<int64_t> dims = query_shape.at(1);
    dims.erase(dims.begin());
    dims.back() = columns;
    return {context.emit("reshape", {y}, {{"shape", dims}})};
  }

 protected:
  explicit ManyHeads(ConfigReader& reader) : Layer(reader) {}

  void read_dropout(ConfigReader& reader) {
    dropout_ = reader.number("dropout", 0.0);
    if (!(dropout_ >= 0 && dropout_ < 1)) {
      reader.refuse("dropout", "0 to below 1", std::to_string(dropout_));
    }
  }
  void read_weights(ConfigReader& reader) {
    kernel_initializer_ = read_initializer(reader, "kernel_initializer", "glorot_uniform");
    bias_initializer_ = read_initializer(reader, "bias_initializer", "zeros");
    kernel_regularizer_ = read_regularizer(reader, "kernel_regularizer");
    bias_regularizer_ = read_regularizer(reader, "bias_regularizer");
    reader.refuse_unless_empty("activity_regularizer",
                               "Regularize the kernel instead (kernel_regularizer).");
    for (const char* key : {"kernel_constraint", "bias_constraint"}) {
      reader.refuse_unless_empty(key, "Regularize the kernel instead (kernel_regularizer).");
    }
  }
  static void read_seed(ConfigReader& reader) {
    const Config seed = reader.value("seed", Config());
    if (!seed.is_null() && !seed.is_int()) {
      reader.refuse("seed", "an integer or null", seed.to_json());
    }
  }

  int64_t heads_ = 1;      // of queries
  int64_t key_heads_ = 1;  // of keys and values: each serves neighbours
  int64_t key_dim_ = 1;
  int64_t value_dim_ = 1;
  int64_t output_dim_ = 0;     // 0: the query's
  std::vector<int64_t> axes_;  // empty: all between batch and channels
  std::string prefix_{};       // of the weights' names
  int64_t window_ = 0;         // positions to either side that are looked at, and its own; 0: all
  bool gated_ = false;
  double dropout_ = 0;
  bool use_bias_ = true;
  Config kernel_initializer_;
  Config bias_initializer_;
  Config kernel_regularizer_;
  Config bias_regularizer_;

 private:
  struct Sources {
    size_t query_input = 0;
    ValueId query, value, key;
    ValueId query_mask, key_mask, mask;
    bool causal = false;
  };

  static int64_t last_of(const ValueType& type) { return type.shape[type.shape.rank() - 1].count; }

  // Gives (batch, positions…, channels) as (batch, all positions, channels).
  ValueId one_list(LayerContext& context, ValueId x) const {
    const Shape shape = one_input(context, std::span(&x, 1), 0);
    if (shape.rank() < 3) {
      context.refuse("values of rank 3 or more", to_string(shape),
                     "Give them an axis of positions: samples do not look at each other.");
    }
    std::set<int64_t> axes;
    for (int64_t axis : axes_) axes.insert(axis < 0 ? axis + shape.rank() : axis);
    const bool all = axes.size() == static_cast<size_t>(shape.rank() - 2) && *axes.begin() == 1 &&
                     *axes.rbegin() == shape.rank() - 2;
    if (!axes_.empty() && !all) {
      context.refuse(
          fmt::format("attention_axes that are all axes between batch and channels of {}",
                      to_string(shape)),
          Config(Config::Array(axes_.begin(), axes_.end())).to_json(),
          "Leave them out, or reshape to (batch, positions, channels) first.");
    }
    if (shape.rank() == 3) return x;
    const int64_t channels = last_of(context.type(x));
    const int64_t positions = shape.elements_per_sample() / channels;
    return context.emit("reshape", {x}, {{"shape", std::vector<int64_t>{positions, channels}}});
  }

  void add_weights(std::vector<Weight>& weights, const std::string& prefix,
                   std::vector<int64_t> kernel, std::vector<int64_t> bias) const {
    // The kernel has three axes: channels to heads, or heads to channels.
    const bool to_heads = bias.size() == 2;
    const Config initializer = to_heads ? with_fans(kernel_initializer_, {0}, {1, 2})
                                        : with_fans(kernel_initializer_, {0, 1}, {2});
    weights.push_back(
        {prefix_ + prefix + "/kernel", std::move(kernel), initializer, kernel_regularizer_, true});
    if (!use_bias_) return;
    weights.push_back(
        {prefix_ + prefix + "/bias", std::move(bias), bias_initializer_, bias_regularizer_, true});
  }

  ValueId one_of(LayerContext& context, std::span<const ValueId> inputs,
                 const CallArguments& arguments, std::string_view parameter, size_t& input) const {
    const std::vector<size_t> found = arguments.tensors(parameter);
    if (found.empty()) return ValueId();
    if (found.size() > 1 || found[0] >= inputs.size()) {
      context.refuse("one value as " + std::string(parameter), "several", "");
    }
    input = found[0];
    return inputs[input];
  }

  Sources find_sources(LayerContext& context, std::span<const ValueId> inputs) const {
    const CallArguments arguments(
        context, inputs.size(),
        {"query", "value", "key", "query_mask", "value_mask", "key_mask", "attention_mask",
         "return_attention_scores", "training", "use_causal_mask"});
    if (arguments.flag("return_attention_scores", false)) {
      context.refuse("an output without scores", "return_attention_scores=true",
                     "The scores are never stored: build the model without them.");
    }
    Sources sources;
    size_t value_input = 0;
    size_t key_input = 0;
    size_t other = 0;
    sources.query = one_of(context, inputs, arguments, "query", sources.query_input);
    sources.value = one_of(context, inputs, arguments, "value", value_input);
    sources.key = one_of(context, inputs, arguments, "key", key_input);
    if (!sources.query.valid() || !sources.value.valid()) {
      context.refuse("a query and a value", "one of them", "Call it as layer(query, value).");
    }
    const bool own_key = sources.key.valid();
    if (!own_key) sources.key = sources.value;
    sources.causal = arguments.flag("use_causal_mask", false);
    sources.mask = one_of(context, inputs, arguments, "attention_mask", other);
    const Config& given = arguments.get("attention_mask");
    if (!sources.mask.valid() && !given.is_null()) {
      sources.mask =
          as_value(context, constant_operand(context, given, DType::kBool), DType::kBool);
    }
    // Keras takes the query's own mask whatever was given, and the others where none was.
    sources.query_mask = context.mask(sources.query_input);
    ValueId value_mask = one_of(context, inputs, arguments, "value_mask", other);
    if (value_mask.valid()) value_mask = as_bool(context, value_mask);
    if (!value_mask.valid()) value_mask = context.mask(value_input);
    ValueId key_mask = one_of(context, inputs, arguments, "key_mask", other);
    if (key_mask.valid()) key_mask = as_bool(context, key_mask);
    if (!key_mask.valid() && own_key) key_mask = context.mask(key_input);
    sources.key_mask = value_mask;
    if (key_mask.valid()) {
      sources.key_mask = value_mask.valid()
                             ? context.emit("logical", {value_mask, key_mask}, {{"kind", "and"}})
                             : key_mask;
    }
    // As in Keras, what is called on the same values after this layer sees no mask of theirs.
    for (ValueId x : {sources.query, sources.value, sources.key}) context.take_mask_off(x);
    const bool masked = sources.causal || sources.mask.valid() || sources.query_mask.valid() ||
                        sources.key_mask.valid();
    if (masked && context.type(sources.query).shape.rank() > 3) {
      context.refuse("no mask over several axes of positions", "a mask",
                     "Reshape to (batch, positions, channels) first.");
    }
    for (ValueId* x : {&sources.query, &sources.value, &sources.key}) *x = one_list(context, *x);
    if (sources.mask.valid()) sources.mask = as_mask(context, sources.mask, sources);
    if (window_ > 0) sources.mask = within_window(context, sources.mask, sources);
    return sources;
  }

  // bool, and of (batch, queries, keys).
  ValueId as_mask(LayerContext& context, ValueId mask, const Sources& sources) const {
    const ValueType type = context.type(mask);
    const int64_t queries = context.type(sources.query).shape[1].count;
    const int64_t keys = context.type(sources.key).shape[1].count;
    if (type.dtype != DType::kBool) mask = context.emit("cast", {mask}, {{"dtype", "bool"}});
    const Shape full{Dim::batch(), Dim::constant(queries), Dim::constant(keys)};
    if (type.shape == full) return mask;
    if (type.shape.rank() > 3) {
      context.refuse("an attention_mask of rank up to 3", to_string(type.shape),
                     "Give one mask for all heads.");
    }
    return context.emit("broadcast", {mask},
                        {{"shape", std::vector<int64_t>{queries, keys}}, {"batched", true}});
  }

  // x (B, T, D) by a weight of heads → (B, T, heads, columns).
  ValueId project(LayerContext& context, ValueId x, const std::string& name, int64_t heads,
                  int64_t columns) const {
    const ValueId y = dense(context, x, name, {last_of(context.type(x)), heads * columns});
    const int64_t length = context.type(x).shape[1].count;
    return context.emit("reshape", {y}, {{"shape", std::vector<int64_t>{length, heads, columns}}});
  }

  // Repeats each head as often as queries' heads share it.
  ValueId for_all_heads(LayerContext& context, ValueId x) const {
    if (key_heads_ == heads_) return x;
    const Shape shape = context.type(x).shape;
    const int64_t length = shape[1].count;
    const int64_t columns = shape[3].count;
    const std::vector<int64_t> wide = {length, key_heads_, heads_ / key_heads_, columns};
    std::vector<int64_t> thin = wide;
    thin[2] = 1;
    x = context.emit("reshape", {x}, {{"shape", thin}});
    x = context.emit("broadcast", {x}, {{"shape", wide}});
    return context.emit("reshape", {x}, {{"shape", std::vector<int64_t>{length, heads_, columns}}});
  }

  ValueId gate(LayerContext& context, ValueId query) const {
    return context.emit("activation", {project(context, query, "gate_dense", heads_, key_dim_)},
                        {{"kind", "sigmoid"}});
  }

  // Says which keys lie within the window around each query and are seen by the mask.
  ValueId within_window(LayerContext& context, ValueId mask, const Sources& sources) const {
    const Shape shape{Dim::batch(), context.type(sources.query).shape[1],
                      context.type(sources.key).shape[1]};
    const ValueId one = as_value(context, {ValueId(), 1.0}, DType::kFloat32);
    const ValueId ones = over_batch(context, one, shape);
    const ValueId apart =
        context.emit("subtract", {context.emit("running_sum", {ones}, {{"axis", 1}}),
                                  context.emit("running_sum", {ones}, {{"axis", 2}})});
    const ValueId near =
        context.emit("compare", {context.emit("unary", {apart}, {{"kind", "abs"}})},
                     {{"kind", "less"}, {"value", static_cast<double>(window_)}});
    return mask.valid() ? context.emit("logical", {mask, near}, {{"kind", "and"}}) : near;
  }

  ValueId dense(LayerContext& context, ValueId x, const std::string& name,
                const std::vector<int64_t>& shape) const {
    const ValueId kernel =
        context.emit("reshape", {context.weight(prefix_ + name + "/kernel")}, {{"shape", shape}});
    ValueId y = context.emit("dense", {x, kernel}, {{"units", shape[1]}});
    if (!use_bias_) return y;
    ValueId bias = context.weight(prefix_ + name + "/bias");
    if (context.type(bias).shape.rank() > 1) {
      bias = context.emit("reshape", {bias}, {{"shape", std::vector<int64_t>{shape[1]}}});
    }
    return context.emit("bias_add", {y, bias});
  }
};

class MultiHeadAttention final : public ManyHeads {
 public:
  static constexpr std::string_view kClassName = "MultiHeadAttention";

  explicit MultiHeadAttention(ConfigReader& reader) : ManyHeads(reader) {
    heads_ = reader.integer("num_heads", 1);
    key_heads_ = heads_;
    key_dim_ = reader.integer("key_dim", 1);
    const Config value_dim = reader.value("value_dim", Config());
    value_dim_ = value_dim.is_null() ? key_dim_ : reader.integer("value_dim", 1);
    reader.complete("value_dim", value_dim_);
    read_dropout(reader);
    use_bias_ = reader.flag("use_bias", true);
    reader.refuse_unless_empty("use_gate", "Train the layer without a gate.");
    read_output_shape(reader);
    read_axes(reader);
    reader.refuse_unless_empty("sliding_window", "Give an attention_mask instead.");
    reader.legacy("flash_attention");
    read_weights(reader);
    read_seed(reader);
    for (const char* key : {"query_shape", "key_shape", "value_shape"}) reader.legacy(key);
  }

 private:
  void read_output_shape(ConfigReader& reader) {
    const Config given = reader.value("output_shape", Config());
    if (given.is_null()) return;
    const Config only =
        given.is_array() && given.as_array().size() == 1 ? given.as_array()[0] : given;
    if (!only.is_int() || only.as_int() < 1) {
      reader.refuse("output_shape", "one positive integer", given.to_json(),
                    "Reshape the output after the layer.");
    }
    output_dim_ = only.as_int();
  }

  void read_axes(ConfigReader& reader) {
    Config given = reader.value("attention_axes", Config());
    if (given.is_null()) return;
    if (given.is_int()) given = Config::Array{given};
    bool integers = given.is_array() && !given.as_array().empty();
    if (integers) {
      for (const Config& axis : given.as_array()) integers = integers && axis.is_int();
    }
    if (!integers) {
      reader.refuse("attention_axes", "axes between the batch and the channels", given.to_json());
    }
    for (const Config& axis : given.as_array()) axes_.push_back(axis.as_int());
    reader.complete("attention_axes", given);
  }
};

class GroupedQueryAttention final : public ManyHeads {
 public:
  static constexpr std::string_view kClassName = "GroupQueryAttention";

  explicit GroupedQueryAttention(ConfigReader& reader) : ManyHeads(reader) {
    key_dim_ = reader.integer("head_dim", 1);
    value_dim_ = key_dim_;
    heads_ = reader.integer("num_query_heads", 1);
    key_heads_ = reader.integer("num_key_value_heads", 1);
    if (heads_ % key_heads_ != 0) {
      reader.refuse("num_key_value_heads", fmt::format("a number that divides {}", heads_),
                    std::to_string(key_heads_));
    }
    prefix_ = "_";
    use_bias_ = reader.flag("use_bias", true);
    gated_ = reader.flag("use_gate", false);
    const Config window = reader.value("sliding_window", Config());
    if (!window.is_null()) window_ = reader.integer("sliding_window", 1);
    read_dropout(reader);
    reader.legacy("flash_attention");
    read_weights(reader);
    read_seed(reader);
  }
};

}  // namespace

std::shared_ptr<const Layer> make_grouped_query_attention(const Config& config) {
  return construct_layer<GroupedQueryAttention>(config);
}
std::shared_ptr<const Layer> make_multi_head_attention(const Config& config) {
  return construct_layer<MultiHeadAttention>(config);
}

}  // namespace plimsoll::layers
