#include "layers/model/model.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "layers/config/names.h"
#include "layers/model/call_arguments.h"
#include "layers/model/expansion.h"
#include "layers/model/layer_traits.h"
#include "ops/registry.h"

namespace plimsoll::layers {
namespace {

// The InputLayer configuration that a first layer's own configuration stands for; null: none.
Config input_config_of(const Config& config) {
  for (std::string_view key : {"batch_input_shape", "batch_shape"}) {
    const Config* shape = config.find(key);
    if (shape != nullptr && !shape->is_null()) {
      return Config::Object{{"batch_shape", *shape}};
    }
  }
  Config::Array dims = {Config()};
  const Config* shape = config.find("input_shape");
  const Config* dim = config.find("input_dim");
  if (shape != nullptr && !shape->is_null()) {
    for (const Config& size : shape->as_array()) dims.push_back(size);
  } else if (dim != nullptr && !dim->is_null()) {
    dims.push_back(*dim);
  } else {
    return Config();
  }
  return Config::Object{{"batch_shape", std::move(dims)}};
}

int64_t element_count(const Weight& weight) {
  return fixed_shape(weight.shape).elements_per_sample();
}

// The types of a call's outputs, in training or afterwards.
std::vector<ValueType> output_types_of(const Layer& layer, const std::vector<Weight>& weights,
                                       const std::vector<ValueType>& inputs,
                                       const Config& arguments, bool training) {
  graph::GraphBuilder builder(ops::registry());
  std::vector<ValueId> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(builder.input(fmt::format("input{}", i), inputs[i]));
  }
  Expansion expansion(builder, training);
  expansion.set_carried_rows(1);  // how many there are changes no other type
  std::vector<ValueType> types;
  const CallResult result = expansion.call(layer, weights, values, {}, arguments);
  for (ValueId output : result.outputs) {
    types.push_back(builder.type(output));
  }
  return types;
}

}  // namespace

Model::Model(std::string name, ModelKind kind) : name_(std::move(name)), kind_(kind) {}

std::string Model::new_name(std::string_view class_name) const {
  const std::string base = snake_case(class_name);
  std::string name = base;
  for (int i = 1; find_layer(name).valid(); ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

LayerId Model::add_layer(std::string_view class_name, const Config& config) {
  tree_ = nullptr;
  Config named = config;
  const Config* name = named.find("name");
  if (name == nullptr || name->is_null()) named.set("name", new_name(class_name));
  std::shared_ptr<const Layer> layer = make_layer(class_name, named);
  if (find_layer(layer->name()).valid()) {
    throw Error(ErrorKind::kModel, "[" + layer->name() +
                                       "] expected a name of its own, received one that another "
                                       "layer has. Rename one of them.");
  }
  layers_.push_back(std::move(layer));
  weights_.emplace_back();
  weight_input_types_.emplace_back();
  called_.push_back(false);
  return LayerId(layers_.size() - 1);
}

LayerId Model::find_layer(std::string_view name) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i]->name() == name) return LayerId(i);
  }
  return LayerId();
}

const ValueType& Model::type(Tensor tensor) const {
  return calls_[tensor.call.index()].output_types[static_cast<size_t>(tensor.output)];
}

void Model::build_weights(LayerId id, const std::vector<ValueType>& inputs) {
  const std::vector<Weight> weights = layer(id).weights(inputs);
  if (!called_[id.index()]) {
    weights_[id.index()] = weights;
    weight_input_types_[id.index()] = inputs;
    called_[id.index()] = true;
    return;
  }
  if (weights == weights_[id.index()]) return;
  throw Error(ErrorKind::kModel,
              fmt::format("[{}] expected inputs as in its first call, {}, received {}. A layer "
                          "that is called twice has one set of weights.",
                          layer(id).name(), to_string(weight_input_types_[id.index()][0].shape),
                          inputs.empty() ? "none" : to_string(inputs[0].shape)));
}

// Those of training, for which Keras makes weights: RandomCrop crops there and nowhere else. What
// is refused in training alone may still predict.
std::vector<ValueType> Model::infer(LayerId id, const std::vector<ValueType>& inputs,
                                    const Config& arguments) const {
  const std::vector<Weight>& weights = weights_[id.index()];
  try {
    return output_types_of(layer(id), weights, inputs, arguments, true);
  } catch (const Error&) {
    return output_types_of(layer(id), weights, inputs, arguments, false);
  }
}

std::vector<Tensor> Model::call(LayerId id, const std::vector<Tensor>& inputs,
                                const Config& arguments) {
  tree_ = nullptr;
  const CallId call(calls_.size());
  LayerCall record{.layer = id, .inputs = inputs, .output_types = {}, .arguments = arguments};
  if (const std::optional<ValueType> fed = layer(id).input_type()) {
    if (!inputs.empty() || called_[id.index()]) {
      throw Error(ErrorKind::kModel, "[" + layer(id).name() +
                                         "] expected to stand at the start of a model once, "
                                         "received a call. Remove what stands before it.");
    }
    called_[id.index()] = true;
    record.output_types = {*fed};
    calls_.push_back(std::move(record));
    inputs_.push_back(port({call, 0}));
    return {{call, 0}};
  }
  std::vector<ValueType> types;
  types.reserve(inputs.size());
  for (Tensor tensor : inputs) types.push_back(type(tensor));
  std::vector<ValueType> called_on = types;
  if (find_given_mask(arguments, inputs.size()).given) called_on.pop_back();
  build_weights(id, called_on);
  record.output_types = infer(id, types, arguments);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < record.output_types.size(); ++i) {
    outputs.push_back({call, static_cast<int>(i)});
  }
  calls_.push_back(std::move(record));
  return outputs;
}

Tensor Model::add_input(const Config& config) {
  return call(add_layer(kInputLayer, config), {})[0];
}

LayerId Model::append(std::string_view class_name, const Config& config) {
  if (calls_.empty() && class_name != kInputLayer) {
    const Config input = input_config_of(config);
    if (input.is_null()) {
      const Config* name = config.find("name");
      throw Error(
          ErrorKind::kModel,
          "[" +
              (name != nullptr && name->is_string() ? name->as_string() : std::string(class_name)) +
              "] expected an input shape in front of the first layer, received none. "
              "Start the model with an InputLayer.");
    }
    add_input(input);
  }
  const LayerId id = add_layer(class_name, config);
  std::vector<Tensor> inputs;
  if (!calls_.empty()) inputs.push_back({CallId(calls_.size() - 1), 0});
  outputs_ = {port(call(id, inputs)[0])};
  return id;
}

ModelPort Model::port(Tensor tensor) const {
  return {layer(calls_[tensor.call.index()].layer).name(), tensor, type(tensor)};
}

void Model::set_inputs(const std::vector<Tensor>& inputs) {
  std::vector<ModelPort> ports;
  for (Tensor tensor : inputs) {
    ports.push_back(port(tensor));
    const Layer& source = layer(calls_[tensor.call.index()].layer);
    if (!source.input_type()) {
      throw Error(ErrorKind::kModel, "[" + source.name() +
                                         "] expected an InputLayer as an input of " + name_ +
                                         ", received " + source.class_name() + ".");
    }
  }
  if (ports.size() != inputs_.size()) {
    throw Error(ErrorKind::kModel,
                fmt::format("[{}] expected each of its {} InputLayers as an input, received {}.",
                            name_, inputs_.size(), ports.size()));
  }
  inputs_ = std::move(ports);
}

void Model::set_outputs(const std::vector<Tensor>& outputs, const std::vector<std::string>& names) {
  outputs_.clear();
  for (Tensor tensor : outputs) outputs_.push_back(port(tensor));
  for (size_t i = 0; i < names.size(); ++i) outputs_.at(i).name = names[i];
}

std::vector<ModelWeight> Model::all_weights() const {
  std::vector<ModelWeight> all;
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (const Weight& weight : weights_[i]) {
      all.push_back({state_name(*layers_[i], weight.name), LayerId(i), weight,
                     weight.trainable && layers_[i]->trainable()});
    }
  }
  return all;
}

ParameterCounts Model::parameters(LayerId id) const {
  ParameterCounts counts;
  for (const Weight& weight : weights(id)) {
    const bool trainable = weight.trainable && layer(id).trainable();
    (trainable ? counts.trainable : counts.frozen) += element_count(weight);
  }
  return counts;
}

ParameterCounts Model::parameters() const {
  ParameterCounts counts;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const ParameterCounts own = parameters(LayerId(i));
    counts.trainable += own.trainable;
    counts.frozen += own.frozen;
  }
  return counts;
}

bool Model::asks_for_float16() const {
  return std::ranges::any_of(layers_, [](const auto& layer) { return layer->asks_for_float16(); });
}

std::string Model::stateful_layer() const {
  const auto found =
      std::ranges::find_if(layers_, [](const auto& layer) { return layer->carries_state(); });
  return found == layers_.end() ? std::string() : (*found)->name();
}

int64_t Model::fixed_batch() const {
  for (const ModelPort& port : inputs_) {
    const Config* shape =
        layer(calls_[port.tensor.call.index()].layer).config().find("batch_shape");
    if (shape == nullptr || !shape->is_array() || shape->as_array().empty()) continue;
    const Config& batch = shape->as_array()[0];
    if (batch.is_int() && batch.as_int() > 0) return batch.as_int();
  }
  return 0;
}

void Model::set_trainable(std::string_view name, bool trainable) {
  const LayerId id = find_layer(name);
  if (!id.valid()) {
    std::vector<std::string> names;
    for (const auto& layer : layers_) names.push_back(layer->name());
    throw Error(ErrorKind::kModel, "[" + name_ + "] expected the name of a layer, received \"" +
                                       std::string(name) + "\"." + did_you_mean(name, names));
  }
  if (layer(id).input_type()) return;
  Config config = layer(id).config();
  config.set("trainable", trainable);
  layers_[id.index()] = make_layer(layer(id).class_name(), config);
}

void Model::check_complete() const {
  if (inputs_.empty()) {
    throw Error(ErrorKind::kModel,
                "[" + name_ + "] expected an input, received none. Add an InputLayer.");
  }
  if (outputs_.empty()) {
    throw Error(ErrorKind::kModel,
                "[" + name_ + "] expected an output, received none. Add a layer after the input.");
  }
}

std::vector<LayerRow> summarize(const Model& model) {
  std::vector<LayerRow> rows;
  for (size_t i = 0; i < model.layer_count(); ++i) {
    const LayerId id(i);
    LayerRow row{model.layer(id).name(), model.layer(id).class_name(), "", model.parameters(id)};
    for (const LayerCall& call : model.calls()) {
      if (call.layer != id) continue;
      const ValueType& type = call.output_types[0];
      row.output_shape = to_string(type.shape);
      row.output_bytes_per_sample = row_bytes(type.dtype, type.shape);
      for (Tensor input : call.inputs) {
        row.inputs.push_back(model.layer(model.calls()[input.call.index()].layer).name());
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace plimsoll::layers
