#include "layers/kinds/sequence/inner_model.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "layers/config/names.h"
#include "layers/kinds/sequence/call_numbers.h"
#include "layers/model/call_arguments.h"
#include "layers/model/expansion.h"
#include "layers/model/layer_traits.h"
#include "layers/model/model.h"
#include "ops/registry.h"

namespace plimsoll::layers {
namespace {

constexpr int kMostNested = 64;

// Output `output` of the `call`-th call of a layer.
struct Source {
  size_t layer = 0;
  size_t call = 0;
  size_t output = 0;
};

struct InnerCall {
  std::vector<Source> inputs{};
  Config arguments{};  // as in LayerCall
};

struct InnerLayer {
  std::string name{};
  std::string path{};                    // "layers/dense_1/"
  std::shared_ptr<const Layer> layer{};  // null: an InputLayer
  std::vector<InnerCall> calls{};
};

const Config* text_at(const Config& object, std::string_view key) {
  const Config* value = object.is_object() ? object.find(key) : nullptr;
  return value != nullptr && value->is_string() ? value : nullptr;
}

class InnerModel final : public Layer {
 public:
  InnerModel(std::string_view class_name, std::string name, const Config& config)
      : Layer(class_name, std::move(name)) {
    const Config* list = config.is_array() ? &config : config.find("layers");
    if (list == nullptr || !list->is_array() || list->as_array().empty()) {
      refuse("a model with layers", "none", "");
    }
    const Config* trainable = config.find("trainable");
    trained_ = trainable == nullptr || !trainable->is_bool() || trainable->as_bool();
    std::map<std::string, int64_t> counts;
    for (const Config& entry : list->as_array()) add_layer(entry, counts);
    const bool sequential = class_name == "Sequential";
    if (sequential) {
      chain();
      return;
    }
    for (size_t i = 0; i < layers_.size(); ++i) read_calls(list->as_array()[i], layers_[i]);
    inputs_ = read_ports(config, "input_layers");
    outputs_ = read_ports(config, "output_layers");
    number_calls();
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    graph::GraphBuilder builder(ops::registry());
    Expansion expansion(builder, false);
    std::vector<ValueId> values;
    for (const ValueType& type : inputs) {
      values.push_back(builder.input(fmt::format("input{}", values.size()), type));
    }
    std::vector<std::vector<Weight>> found(layers_.size());
    const auto call = [&](size_t i, std::span<const ValueId> operands, std::span<const ValueId>,
                          const Config& arguments) {
      std::vector<ValueType> types;
      for (ValueId operand : operands) types.push_back(builder.type(operand));
      if (find_given_mask(arguments, operands.size()).given) types.pop_back();
      if (found[i].empty()) found[i] = layers_[i].layer->weights(types);
      return expansion.call(*layers_[i].layer, found[i], operands, {}, arguments);
    };
    run(values, {}, call);
    std::vector<Weight> weights;
    for (size_t i = 0; i < layers_.size(); ++i) {
      for (Weight weight : found[i]) {
        weight.name = layers_[i].path + weight.name;
        weight.trainable = weight.trainable && trained_ && layers_[i].layer->trainable();
        weights.push_back(std::move(weight));
      }
    }
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    return call_layers(context, inputs,
                       [&](const InnerLayer& inner, std::span<const ValueId> operands,
                           std::span<const ValueId> given, const Config& arguments) {
                         return context.call(*inner.layer, inner.path, operands, given, arguments);
                       });
  }

  bool mixes_samples() const override {
    return trained_ && std::ranges::any_of(layers_, [](const InnerLayer& inner) {
             return inner.layer != nullptr && inner.layer->mixes_samples();
           });
  }

  bool keeps_calls_apart() const override {
    return std::ranges::any_of(layers_, [](const InnerLayer& inner) {
      return inner.layer != nullptr && inner.layer->keeps_calls_apart();
    });
  }

  bool penalizes_activity() const override {
    return std::ranges::any_of(layers_, [](const InnerLayer& inner) {
      return inner.layer != nullptr && inner.layer->penalizes_activity();
    });
  }

  // What looks at each sample alone takes all steps at once.
  std::vector<ValueId> call_by_steps(LayerContext& context, std::span<const ValueId> inputs,
                                     int64_t steps) const override {
    return call_layers(
        context, inputs,
        [&](const InnerLayer& inner, std::span<const ValueId> operands,
            std::span<const ValueId> given, const Config& arguments) {
          return inner.layer->mixes_samples()
                     ? layer_by_steps(context, inner, operands, given, arguments, steps)
                     : context.call(*inner.layer, inner.path, operands, given, arguments);
        });
  }

 private:
  using Caller = std::function<CallResult(size_t, std::span<const ValueId>,
                                          std::span<const ValueId>, const Config&)>;

  // The whole model, each layer by `caller`.
  std::vector<ValueId> call_layers(
      LayerContext& context, std::span<const ValueId> inputs,
      const std::function<CallResult(const InnerLayer&, std::span<const ValueId>,
                                     std::span<const ValueId>, const Config&)>& caller) const {
    std::vector<ValueId> masks;
    for (size_t i = 0; i < inputs.size(); ++i) masks.push_back(context.mask(i));
    CallResult result = run(
        inputs, masks,
        [&](size_t i, std::span<const ValueId> operands, std::span<const ValueId> given,
            const Config& arguments) { return caller(layers_[i], operands, given, arguments); });
    for (size_t i = 0; i < result.masks.size(); ++i) context.set_mask(i, result.masks[i]);
    return std::move(result.outputs);
  }

  static CallResult layer_by_steps(const LayerContext& context, const InnerLayer& inner,
                                   std::span<const ValueId> operands,
                                   std::span<const ValueId> own_masks, const Config& arguments,
                                   int64_t steps) {
    std::vector<ValueId> given(own_masks.begin(), own_masks.end());
    LayerContext place = context.inside(inner.path, {});
    if (find_given_mask(arguments, operands.size()).given) {
      given.assign(1, as_bool(place, operands.back()));
      operands = operands.first(operands.size() - 1);
    }
    CallResult result;
    LayerContext scope = place.inside("", {.masks = given, .output_masks = &result.masks});
    result.outputs = inner.layer->call_by_steps(scope, operands, steps);
    if (result.masks.empty() && !given.empty()) result.masks.push_back(given[0]);
    result.masks.resize(result.outputs.size());
    return result;
  }

  void add_layer(const Config& entry, std::map<std::string, int64_t>& counts) {
    const Config* class_name = text_at(entry, "class_name");
    const Config* config = entry.is_object() ? entry.find("config") : nullptr;
    if (class_name == nullptr || config == nullptr) refuse("layers", entry.to_json(), "");
    const Config* registered = text_at(entry, "registered_name");
    if (registered != nullptr && registered->as_string().find('>') != std::string::npos) {
      refuse("a layer of Keras", "the custom layer " + registered->as_string(),
             "Its code is not in the file and would not be run: replace it by layers of Keras.");
    }
    InnerLayer inner;
    const Config* name = text_at(entry, "name");
    if (name == nullptr) name = text_at(*config, "name");
    if (name == nullptr) refuse("a name for each layer", entry.to_json(), "Save the model again.");
    inner.name = name->as_string();
    const Config* module = text_at(entry, "module");
    const bool is_operator =
        module != nullptr && (module->as_string().starts_with("keras.src.ops") ||
                              module->as_string().starts_with("keras.ops"));
    if (is_operator) {
      Config options = *config;
      options.set("name", inner.name);
      options.set("operation", class_name->as_string());
      inner.layer = make_layer(kOperation, options);
    } else {
      const std::string base = snake_case(class_name->as_string());
      const int64_t count = counts[base]++;
      inner.path = "layers/" + base + (count == 0 ? "" : fmt::format("_{}", count)) + "/";
      if (class_name->as_string() == kInputLayer) {
        // A Sequential does not count its InputLayer, and nobody else is called so.
      } else {
        Config options = *config;
        if (options.is_object()) options.set("name", inner.name);
        inner.layer = make_inner_layer(class_name->as_string(), options);
      }
    }
    layers_.push_back(std::move(inner));
  }

  // A Sequential: each layer on the output of the one before.
  void chain() {
    const bool starts_with_input = layers_[0].layer == nullptr;
    if (!starts_with_input) {
      layers_.insert(layers_.begin(), InnerLayer{.name = "input"});
    }
    layers_[0].calls.assign(1, {});
    for (size_t i = 1; i < layers_.size(); ++i) {
      layers_[i].calls.push_back({{Source{i - 1, 0, 0}}, Config()});
    }
    inputs_ = {Source{0, 0, 0}};
    outputs_ = {Source{layers_.size() - 1, 0, 0}};
  }

  size_t find(const std::string& name) const {
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (layers_[i].name == name) return i;
    }
    refuse("the name of a layer", "\"" + name + "\"", "");
  }

  bool is_history(const Config& value) const {
    return value.is_array() && value.as_array().size() >= 3 && value.as_array()[0].is_string() &&
           value.as_array()[1].is_int() && value.as_array()[2].is_int();
  }

  Source read_source(const Config& history) const {
    if (!is_history(history)) refuse("a tensor as [layer, call, output]", history.to_json(), "");
    const Config::Array& parts = history.as_array();
    if (parts[1].as_int() < 0 || parts[2].as_int() < 0) {
      refuse("a tensor as [layer, call, output]", history.to_json(), "");
    }
    return {find(parts[0].as_string()), static_cast<size_t>(parts[1].as_int()),
            static_cast<size_t>(parts[2].as_int())};
  }

  void read_calls(const Config& entry, InnerLayer& inner) {
    const Config* nodes = entry.find("inbound_nodes");
    if (inner.layer == nullptr || nodes == nullptr || !nodes->is_array()) {
      inner.calls.assign(1, {});
      return;
    }
    for (const Config& node : nodes->as_array()) {
      InnerCall call;
      keras_3_ = keras_3_ || node.is_object();
      if (node.is_object()) {
        const Config* args = node.find("args");
        const Config* kwargs = node.find("kwargs");
        Config taken{Config::Object{}};
        Config given = args == nullptr ? Config(Config::Array{}) : take(*args, call, 0);
        if (kwargs != nullptr && kwargs->is_object()) {
          for (const auto& [key, value] : kwargs->as_object()) {
            if (!says_nothing(value) && key != "training") taken.set(key, take(value, call, 0));
          }
        }
        const bool plain = taken.as_object().empty() && inner.layer->class_name() != kOperation;
        if (!plain) call.arguments = Config::Object{{"args", given}, {"kwargs", taken}};
      } else if (is_history(node)) {
        call.inputs.push_back(read_source(node));
      } else if (node.is_array()) {
        for (const Config& tensor : node.as_array()) call.inputs.push_back(read_source(tensor));
      }
      if (call.inputs.empty())
        refuse("a call of " + inner.name + " on tensors", node.to_json(), "");
      inner.calls.push_back(std::move(call));
    }
  }

  // Tensors become {"tensor": i}; constants stay.
  Config take(const Config& value, InnerCall& call, int depth) const {
    if (depth > kMostNested) refuse("arguments of few lists", "lists too deep", "");
    if (value.is_array()) {
      Config::Array items;
      for (const Config& item : value.as_array()) items.push_back(take(item, call, depth + 1));
      return items;
    }
    const Config* name = text_at(value, "class_name");
    if (name == nullptr || name->as_string() != "__keras_tensor__") return value;
    const Config* config = value.find("config");
    const Config* history = config == nullptr ? nullptr : config->find("keras_history");
    if (history == nullptr) refuse("a tensor with its history", value.to_json(), "");
    call.inputs.push_back(read_source(*history));
    return tensor_argument(call.inputs.size() - 1);
  }

  std::vector<Source> read_ports(const Config& config, std::string_view key) const {
    const Config* ports = config.find(key);
    if (ports == nullptr || !ports->is_array()) refuse(std::string(key), "none", "");
    if (is_history(*ports)) return {read_source(*ports)};
    std::vector<Source> sources;
    for (const Config& port : ports->as_array()) sources.push_back(read_source(port));
    return sources;
  }

  // Calls are numbered as Keras numbers them (call_numbers.h); from here on by their place.
  void number_calls() {
    std::vector<int64_t> lowest(layers_.size(), std::numeric_limits<int64_t>::max());
    const auto each = [&](const auto& visit) {
      for (InnerLayer& inner : layers_) {
        for (InnerCall& call : inner.calls) {
          for (Source& source : call.inputs) visit(source, false);
        }
      }
      for (Source& source : inputs_) visit(source, true);
      for (Source& source : outputs_) visit(source, true);
    };
    each([&](const Source& source, bool) {
      lowest[source.layer] = std::min(lowest[source.layer], static_cast<int64_t>(source.call));
    });
    each([&](Source& source, bool port) {
      const Layer* layer = layers_[source.layer].layer.get();
      if (dynamic_cast<const InnerModel*>(layer) == nullptr) return;
      const int64_t first = first_call_number({.keras_3 = keras_3_,
                                               .port = port,
                                               .sequential = layer->class_name() == "Sequential",
                                               .lowest = lowest[source.layer]});
      const auto number = static_cast<int64_t>(source.call);
      const int64_t place = call_place(number, first, keras_3_);
      const auto count = static_cast<int64_t>(layers_[source.layer].calls.size());
      if (place < 0 || place >= count) {
        refuse(
            fmt::format("a call of {} between {} and {}", layer->name(), first, first + count - 1),
            std::to_string(number), "Save the model again.");
      }
      source.call = static_cast<size_t>(place);
    });
  }

  // Makes each call when its inputs are there, in the file's order.
  CallResult run(std::span<const ValueId> inputs, std::span<const ValueId> masks,
                 const Caller& caller) const {
    if (inputs.size() != inputs_.size()) {
      refuse(fmt::format("{} inputs", inputs_.size()), std::to_string(inputs.size()), "");
    }
    std::map<std::pair<size_t, size_t>, CallResult> made;
    for (size_t i = 0; i < inputs.size(); ++i) {
      made[{inputs_[i].layer, inputs_[i].call}] = {{inputs[i]},
                                                   {i < masks.size() ? masks[i] : ValueId()}};
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < layers_.size(); ++i) {
        for (size_t k = 0; k < layers_[i].calls.size(); ++k) {
          if (layers_[i].layer == nullptr || made.contains({i, k})) continue;
          std::vector<ValueId> operands;
          std::vector<ValueId> operand_masks;
          if (!gather(made, layers_[i].calls[k], operands, operand_masks)) continue;
          made[{i, k}] = caller(i, operands, operand_masks, layers_[i].calls[k].arguments);
          moved = true;
        }
      }
    }
    CallResult result;
    InnerCall ports{outputs_, {}};
    if (!gather(made, ports, result.outputs, result.masks)) {
      refuse("outputs that its inputs lead to", "others", "");
    }
    return result;
  }

  bool gather(const std::map<std::pair<size_t, size_t>, CallResult>& made, const InnerCall& call,
              std::vector<ValueId>& values, std::vector<ValueId>& masks) const {
    for (const Source& source : call.inputs) {
      const auto found = made.find({source.layer, source.call});
      if (found == made.end()) return false;
      if (source.output >= found->second.outputs.size()) {
        refuse("an output of " + layers_[source.layer].name, std::to_string(source.output), "");
      }
      values.push_back(found->second.outputs[source.output]);
      masks.push_back(found->second.masks[source.output]);
    }
    return true;
  }

  bool trained_ = true;
  bool keras_3_ = false;
  std::vector<InnerLayer> layers_;
  std::vector<Source> inputs_;
  std::vector<Source> outputs_;
};

}  // namespace

bool is_inner_model(std::string_view class_name) {
  return class_name == "Sequential" || class_name == "Functional" || class_name == "Model";
}

std::shared_ptr<const Layer> make_inner_model(std::string_view class_name, const Config& config) {
  const Config* name = text_at(config, "name");
  return std::make_shared<InnerModel>(class_name, name == nullptr ? "model" : name->as_string(),
                                      config);
}

std::shared_ptr<const Layer> make_inner_layer(std::string_view class_name, const Config& config) {
  if (layer_traits(class_name).looks_up) {
    throw Error(ErrorKind::kModel,
                "[" + std::string(class_name) +
                    "] expected it directly after an input of the model, received one inside of "
                    "another layer. Look the values up first.");
  }
  return is_inner_model(class_name) ? make_inner_model(class_name, config)
                                    : make_layer(class_name, config);
}

}  // namespace plimsoll::layers
