#include "layers/model/expansion.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "layers/config/call_sites.h"
#include "layers/config/regularizers.h"
#include "layers/model/call_arguments.h"
#include "layers/model/masking.h"

namespace plimsoll::layers {

std::string state_name(const Layer& layer, std::string_view weight) {
  return layer.name() + "/" + std::string(weight);
}

graph::StateVariable state_variable(const Layer& layer, const Weight& weight) {
  return {.name = state_name(layer, weight.name),
          .type = {DType::kFloat32, fixed_shape(weight.shape)},
          .role = weight.trainable ? graph::StateRole::kWeight : graph::StateRole::kMovingStatistic,
          .layer = layer.name(),
          .trainable = weight.trainable && layer.trainable()};
}

CallResult Expansion::call(const Layer& layer, const std::vector<Weight>& weights,
                           std::span<const ValueId> inputs, std::span<const ValueId> masks,
                           const Config& arguments) {
  weights_ = &weights;
  builder_.set_layer(layer.name());
  CallResult result = run(layer, LayerContext(*this, layer), inputs, masks, arguments);
  builder_.set_layer("");
  weights_ = nullptr;
  return result;
}

CallResult Expansion::run(const Layer& layer, const LayerContext& place,
                          std::span<const ValueId> inputs, std::span<const ValueId> masks,
                          const Config& arguments) {
  CallResult result;
  const GivenMask given = find_given_mask(arguments, inputs.size());
  std::vector<ValueId> own_masks(masks.begin(), masks.end());
  for (size_t i = 0; i < own_masks.size(); ++i) {
    if (lost_mask(inputs[i])) own_masks[i] = ValueId();
  }
  if (given.given) {
    own_masks.resize(inputs.size());
    own_masks[0] = as_bool(layer, inputs.back());
    own_masks.pop_back();
    inputs = inputs.first(inputs.size() - 1);
  }
  LayerContext context = place.inside(
      "", {.masks = own_masks, .arguments = &given.arguments, .output_masks = &result.masks});
  result.outputs = call_in_known_form(layer, context, inputs);
  if (result.masks.empty()) {
    result.masks.assign(1, default_mask(builder_, layer, own_masks));
  }
  result.masks.resize(result.outputs.size());
  penalize(layer, result.outputs);
  return result;
}

ValueId Expansion::as_bool(const Layer& layer, ValueId mask) {
  if (builder_.type(mask).dtype == DType::kBool) return mask;
  return builder_.call("cast", layer.name() + "/mask", {mask}, {{"dtype", "bool"}});
}

void Expansion::penalize(const Layer& layer, const std::vector<ValueId>& outputs) {
  if (layer.activity_regularizer().is_null()) return;
  for (const ValueId output : outputs) {
    const std::string name = fmt::format("{}/activity{}", layer.name(), activity_penalties_.size());
    const ValueId penalty =
        add_activity_penalty(builder_, layer.activity_regularizer(), as_float32(output), name);
    if (penalty.valid()) activity_penalties_.push_back(penalty);
  }
}

namespace {

// The values in their other form; nullopt: one has none, or they are not of one rank.
std::optional<std::vector<ValueId>> in_form(const graph::GraphBuilder& builder,
                                            const LayerContext& context,
                                            const std::map<ValueId, ValueId>& form,
                                            std::span<const ValueId> values) {
  std::vector<ValueId> others;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto known = form.find(values[i]);
    // A mask lies as the value itself does.
    if (known == form.end() || context.mask(i).valid()) return std::nullopt;
    const int rank = builder.type(values[i]).shape.rank();
    if (rank != builder.type(values[0]).shape.rank()) return std::nullopt;
    others.push_back(known->second);
  }
  return others;
}

}  // namespace

std::vector<ValueId> Expansion::call_in_known_form(const Layer& layer, LayerContext& context,
                                                   std::span<const ValueId> inputs) {
  if (inputs.empty() || !layer.elementwise_call(context.arguments())) {
    return layer.call(context, inputs);
  }
  std::optional<std::vector<ValueId>> others = in_form(builder_, context, channels_last_, inputs);
  std::function<ValueId(ValueId)> back = [&](ValueId x) { return channels_first(layer, x); };
  if (!others) {
    others = in_form(builder_, context, images_, inputs);
    back = [&](ValueId x) { return context.sequence(x); };
  }
  if (!others) return layer.call(context, inputs);
  std::vector<ValueId> outputs = call_in_known_form(layer, context, *others);
  for (ValueId& output : outputs) {
    const ValueId logits = logits_of(output);
    const ValueId inner = std::exchange(output, back(output));
    if (logits.valid()) remember_logits(output, back(logits), made_by(inner));
  }
  return outputs;
}

ValueId Expansion::known_image(ValueId sequence) const {
  const auto known = images_.find(sequence);
  return known == images_.end() ? ValueId() : known->second;
}

ValueId Expansion::channels_last(const Layer& layer, ValueId x) {
  const auto known = channels_last_.find(x);
  if (known != channels_last_.end()) return known->second;
  std::vector<int64_t> permutation;
  for (int d = 2; d < builder_.type(x).shape.rank(); ++d) permutation.push_back(d);
  permutation.push_back(1);
  const ValueId last = builder_.call("transpose", layer.name() + "/channels_last", {x},
                                     {{"permutation", permutation}});
  channels_last_[x] = last;
  return last;
}

ValueId Expansion::channels_first(const Layer& layer, ValueId x) {
  const int rank = builder_.type(x).shape.rank();
  std::vector<int64_t> permutation = {rank - 1};
  for (int d = 1; d < rank - 1; ++d) permutation.push_back(d);
  const ValueId first = builder_.call("transpose", layer.name() + "/channels_first", {x},
                                      {{"permutation", permutation}});
  channels_last_[first] = x;
  return first;
}

graph::StateId Expansion::declare(const Layer& layer, std::string_view name) {
  PLIMSOLL_CHECK(weights_ != nullptr, "a weight is asked for outside of a call");
  const auto weight = std::find_if(weights_->begin(), weights_->end(),
                                   [&](const Weight& w) { return w.name == name; });
  PLIMSOLL_CHECK(weight != weights_->end(), layer.name() + " has no weight " + std::string(name));
  return builder_.state(state_variable(layer, *weight));
}

ValueId Expansion::weight(const Layer& layer, std::string_view name) {
  return value_of(declare(layer, name));
}

ValueId Expansion::value_of(graph::StateId weight) {
  const auto replaced = replaced_.find(builder_.graph().state(weight).name);
  return replaced != replaced_.end() ? replaced->second : builder_.read(weight);
}

bool Expansion::replace_weight(const Layer& layer, std::string_view name, ValueId value) {
  return replaced_.try_emplace(state_name(layer, name), value).second;
}

ValueId Expansion::statistic(const Layer& layer, std::string_view name) {
  const auto known = statistics_.find(state_name(layer, name));
  return known != statistics_.end() ? known->second : weight(layer, name);
}

void Expansion::set_statistic(const Layer& layer, std::string_view name, ValueId next) {
  declare(layer, name);
  statistics_[state_name(layer, name)] = next;
}

graph::StateId Expansion::declare_carried(const Layer& layer, std::string_view name,
                                          int64_t columns) {
  const std::vector<int64_t> dims = {carried_rows_, columns};
  return builder_.state({.name = state_name(layer, name),
                         .type = {DType::kFloat32, fixed_shape(dims)},
                         .role = graph::StateRole::kMovingStatistic,
                         .layer = layer.name(),
                         .trainable = false});
}

ValueId Expansion::carried(const Layer& layer, std::string_view name, int64_t columns) {
  const auto known = statistics_.find(state_name(layer, name));
  if (known != statistics_.end()) return known->second;
  return builder_.read(declare_carried(layer, name, columns));
}

void Expansion::set_carried(const Layer& layer, std::string_view name, ValueId next) {
  declare_carried(layer, name, builder_.type(next).shape[1].count);
  statistics_[state_name(layer, name)] = next;
}

void Expansion::remember_logits(ValueId output, ValueId logits, Probabilities made_by) {
  logits_[output] = {logits, made_by};
}

ValueId Expansion::logits_of(ValueId value) {
  const auto known = logits_.find(value);
  return known == logits_.end() ? ValueId() : as_float32(known->second.value);
}

std::vector<ValueId> Expansion::operands(const Layer& layer, std::string_view op,
                                         std::vector<ValueId> inputs) {
  const bool bf16 = precision_ == Precision::kBFloat16 ||
                    (precision_ == Precision::kOfLayers && layer.computes_in_bfloat16());
  std::vector<ValueType> types;
  types.reserve(inputs.size());
  for (ValueId input : inputs) types.push_back(builder_.type(input));
  const graph::Op* known = builder_.registry().find(op);  // the builder refuses an unknown one
  const graph::Bf16Rule rule = known == nullptr ? graph::Bf16Rule() : known->traits().bf16;
  const std::vector<DType> wanted = wanted_dtypes(rule, types, bf16);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wanted[i] != DType::kOpaque) inputs[i] = cast(inputs[i], wanted[i]);
  }
  return inputs;
}

ValueId Expansion::as_float32(ValueId value) {
  const bool bf16 = builder_.type(value).dtype == DType::kBFloat16;
  return bf16 ? cast(value, DType::kFloat32) : value;
}

ValueId Expansion::cast(ValueId value, DType dtype) {
  const auto known = casts_.find({value, dtype});
  if (known != casts_.end()) return known->second;
  const std::string name(to_string(dtype));
  const ValueId result = builder_.call("cast", builder_.graph().value(value).name + "/" + name,
                                       {value}, {{"dtype", name}});
  const auto logits = logits_.find(value);
  if (logits != logits_.end()) logits_[result] = logits->second;
  casts_[{value, dtype}] = result;
  return result;
}

int64_t Expansion::call_site(const Layer& layer) {
  const int count = site_counts_[layer.name()]++;
  return site_of(count == 0 ? layer.name() : fmt::format("{}#{}", layer.name(), count));
}

int Expansion::call_sites(const Layer& layer) const {
  const auto known = site_counts_.find(layer.name());
  return known == site_counts_.end() ? 0 : known->second;
}

void Expansion::set_call_sites(const Layer& layer, int count) {
  site_counts_[layer.name()] = count;
}

ValueId Expansion::constant(const Layer& layer, std::string_view prefix, const ConstantData& data) {
  std::string name;
  for (int i = 0;; ++i) {
    name = state_name(layer, std::string(prefix) + "constant" + (i == 0 ? "" : std::to_string(i)));
    const auto known = constants_.find(name);
    if (known == constants_.end() || known->second == data) break;
  }
  constants_[name] = data;
  return builder_.read(builder_.state({.name = name,
                                       .type = {data.dtype, fixed_shape(data.shape)},
                                       .role = graph::StateRole::kWeight,
                                       .layer = layer.name(),
                                       .trainable = false}));
}

void Expansion::write_statistics() {
  for (const auto& [name, value] : statistics_) {
    const graph::StateId state = find_state(builder_.graph(), name);
    builder_.set_layer(builder_.graph().state(state).layer);
    builder_.write(state, value);
  }
  builder_.set_layer("");
}

ModelValues expand_model(const Model& model, Expansion& expansion,
                         std::span<const ValueId> inputs) {
  ModelValues all;
  all.values.reserve(model.calls().size());
  for (size_t i = 0; i < model.calls().size(); ++i) {
    const LayerCall& call = model.calls()[i];
    if (model.layer(call.layer).input_type()) {
      const auto port =
          std::find_if(model.inputs().begin(), model.inputs().end(),
                       [&](const ModelPort& p) { return p.tensor.call.index() == i; });
      PLIMSOLL_CHECK(port != model.inputs().end(),
                     "an InputLayer of " + model.name() + " is no input of it");
      all.values.push_back({inputs[static_cast<size_t>(port - model.inputs().begin())]});
      all.masks.push_back({ValueId()});
      continue;
    }
    std::vector<ValueId> operands;
    std::vector<ValueId> masks;
    for (Tensor tensor : call.inputs) {
      operands.push_back(all.value(tensor));
      masks.push_back(all.mask(tensor));
    }
    CallResult result = expansion.call(model.layer(call.layer), model.weights(call.layer), operands,
                                       masks, call.arguments);
    all.values.push_back(std::move(result.outputs));
    all.masks.push_back(std::move(result.masks));
  }
  for (size_t i = 0; i < all.values.size(); ++i) {
    for (size_t k = 0; k < all.values[i].size(); ++k) {
      if (expansion.lost_mask(all.values[i][k])) all.masks[i][k] = ValueId();
    }
  }
  return all;
}

}  // namespace plimsoll::layers
