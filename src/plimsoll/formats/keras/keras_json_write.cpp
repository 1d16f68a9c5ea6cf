#include <map>
#include <string_view>

#include "base/error.h"
#include "formats/keras/keras_json.h"
#include "formats/keras/keras_operators.h"
#include "formats/keras/keras_order.h"
#include "formats/keras/keras_tree.h"
#include "layers/model/layer_traits.h"

namespace plimsoll::formats {
namespace {

using layers::CallId;
using layers::Config;
using layers::Model;
using layers::ModelKind;
using layers::ModelTree;
using layers::Tensor;
using layers::TreeCall;
using layers::TreeNode;
using layers::TreeTensor;

Config without(const Config& config, std::string_view key) {
  Config kept{Config::Object{}};
  for (const auto& [name, value] : config.as_object()) {
    if (name != key) kept.set(name, value);
  }
  return kept;
}

Config shape_of(const layers::ValueType& type) {
  Config::Array dims;
  for (const Dim& dim : type.shape.dims()) {
    dims.emplace_back();
    if (!dim.of_batch) dims.back() = dim.count;
  }
  return dims;
}

// Every {"tensor": i} of a structure as `write(i)`.
template <typename Write>
Config with_tensors(const Config& value, const Write& write) {
  if (value.is_array()) {
    Config::Array items;
    items.reserve(value.as_array().size());
    for (const Config& item : value.as_array()) items.push_back(with_tensors(item, write));
    return items;
  }
  if (!value.is_object()) return value;
  if (const Config* tensor = value.find("tensor"); tensor != nullptr && tensor->is_int()) {
    return write(static_cast<size_t>(tensor->as_int()));
  }
  if (value.find("class_name") != nullptr) return value;
  Config items{Config::Object{}};
  for (const auto& [key, item] : value.as_object()) items.set(key, with_tensors(item, write));
  return items;
}

class TreeWriter {
 public:
  explicit TreeWriter(const Model& model) {
    for (size_t i = 0; i < model.layer_count(); ++i) {
      const layers::Layer& layer = model.layer(layers::LayerId(i));
      layers_[layer.name()] = &layer;
    }
  }

  Config write(const ModelTree& tree) const {
    return tree.sequential ? write_sequential(tree) : write_functional(tree);
  }

 private:
  Config write_sequential(const ModelTree& tree) const {
    Config config;
    config.set("name", tree.name);
    config.set("trainable", tree.trainable);
    config.set("dtype",
               keras_object("keras", "DTypePolicy", Config::Object{{"name", Config("float32")}}));
    Config::Array layers;
    for (const TreeNode& node : tree.nodes) layers.push_back(write_node(node));
    config.set("layers", std::move(layers));
    if (!tree.nodes.empty() && tree.nodes.front().class_name == layers::kInputLayer) {
      config.set("build_input_shape", config_of(tree.nodes.front()).at("batch_shape"));
    } else if (tree.input_structure.is_array()) {
      config.set("build_input_shape", tree.input_structure);
    }
    return keras_object("keras", "Sequential", std::move(config));
  }

  Config write_functional(const ModelTree& tree) const {
    const KerasOrder order = keras_order(tree);
    std::vector<std::vector<size_t>> indices;  // "node index" per node and call
    for (size_t i = 0; i < tree.nodes.size(); ++i) {
      indices.emplace_back(tree.nodes[i].calls.size(), 0);
      for (size_t k = 0; k < order.calls[i].size(); ++k) indices[i][order.calls[i][k]] = k;
    }
    const auto history = [&](const TreeTensor& tensor) {
      return Config(Config::Array{Config(tree.nodes[tensor.node].name),
                                  Config(static_cast<int64_t>(indices[tensor.node][tensor.call])),
                                  Config(tensor.output)});
    };
    Config config;
    config.set("name", tree.name);
    config.set("trainable", tree.trainable);
    Config::Array layers;
    for (const size_t index : order.nodes) {
      const TreeNode& node = tree.nodes[index];
      Config json = write_node(node);
      json.set("name", node.name);
      Config::Array calls;
      for (const size_t call : order.calls[index]) {
        if (node.calls[call].inputs.empty()) continue;  // an InputLayer
        calls.push_back(write_call(tree, node.calls[call], history));
      }
      json.set("inbound_nodes", std::move(calls));
      layers.push_back(std::move(json));
    }
    config.set("layers", std::move(layers));
    // Among the ports Keras counts the call that a Functional has of its own (keras_calls.cpp).
    const auto port = [&](const TreeTensor& tensor) {
      const TreeNode& node = tree.nodes[tensor.node];
      const bool counts_own = node.model != nullptr && !node.model->sequential;
      const auto index = static_cast<int64_t>(indices[tensor.node][tensor.call]);
      return Config(Config::Array{Config(node.name), Config(index + (counts_own ? 1 : 0)),
                                  Config(tensor.output)});
    };
    config.set("input_layers",
               with_tensors(tree.input_structure, [&](size_t i) { return port(tree.inputs[i]); }));
    config.set("output_layers", with_tensors(tree.output_structure,
                                             [&](size_t i) { return port(tree.outputs[i]); }));
    Config json = keras_object("keras.src.models.functional", "Functional", std::move(config));
    json.set("registered_name", "Functional");
    return json;
  }

  template <typename History>
  static Config write_call(const ModelTree& tree, const TreeCall& call, const History& history) {
    const auto write = [&](size_t i) {
      const TreeTensor& tensor = call.inputs[i];
      const TreeCall& maker = tree.nodes[tensor.node].calls[tensor.call];
      const layers::ValueType& type = maker.output_types.at(static_cast<size_t>(tensor.output));
      Config shape = shape_of(type);
      Config dtype(std::string(to_string(type.dtype)));
      // An input that is looked up gives something else than it takes.
      const TreeNode& node = tree.nodes[tensor.node];
      const Config* taken = node.config.find("dtype");
      if (node.class_name == layers::kInputLayer && taken != nullptr &&
          *taken == Config("string")) {
        shape = node.config.at("batch_shape");
        dtype = *taken;
      }
      return Config(
          Config::Object{{"class_name", Config("__keras_tensor__")},
                         {"config", Config(Config::Object{{"shape", std::move(shape)},
                                                          {"dtype", std::move(dtype)},
                                                          {"keras_history", history(tensor)}})}});
    };
    // Arguments may hold whole constants: moved, where a list in braces would copy them.
    Config json;
    json.set("args", with_tensors(call.args, write));
    json.set("kwargs", with_tensors(call.kwargs, write));
    return json;
  }

  Config write_node(const TreeNode& node) const {
    if (node.model != nullptr) return write(*node.model);
    Config json = keras_object(node.module, node.class_name, config_of(node));
    if (is_operator(node)) json.set("registered_name", node.class_name);
    return json;
  }

  // The flat layer's configuration under the file's name; an InputLayer keeps its open sizes.
  Config config_of(const TreeNode& node) const {
    if (is_operator(node) || node.layer.empty()) return node.config;
    Config config = layers_.at(node.layer)->config();
    config.set("name", node.name);
    // Keras does not load a file that says it of such a layer.
    if (!layers::layer_traits(node.class_name).says_trainable) {
      config = without(config, "trainable");
    }
    if (node.class_name == layers::kInputLayer) {
      if (const Config* shape = node.config.find("batch_shape")) config.set("batch_shape", *shape);
    }
    return config;
  }

  std::map<std::string, const layers::Layer*> layers_;  // by flat name
};

// [a, b, …] of {"tensor": i}; a single one alone, so that Keras takes and gives one array.
Config port_list(size_t count) {
  Config::Array list;
  for (size_t i = 0; i < count; ++i) {
    list.push_back(Config::Object{{"tensor", Config(static_cast<int64_t>(i))}});
  }
  if (list.size() == 1) return list.front();
  return list;
}

// One input alone, several as one list.
TreeCall plain_call(std::vector<TreeTensor> inputs) {
  TreeCall call;
  Config list = port_list(inputs.size());
  call.args = inputs.empty() ? Config(Config::Array{}) : Config(Config::Array{std::move(list)});
  call.kwargs = Config(Config::Object{});
  call.inputs = std::move(inputs);
  return call;
}

}  // namespace

Config keras_object(std::string_view module, std::string_view class_name, Config config) {
  Config json;
  json.set("module", std::string(module));
  json.set("class_name", std::string(class_name));
  json.set("config", std::move(config));
  json.set("registered_name", Config());
  return json;
}

ModelTree tree_of(const Model& model) {
  ModelTree tree;
  tree.name = model.name();
  tree.sequential = model.kind() == ModelKind::kSequential;
  for (size_t i = 0; i < model.layer_count(); ++i) {
    const layers::Layer& layer = model.layer(layers::LayerId(i));
    const std::string_view own = layers::layer_traits(layer.class_name()).module;
    tree.nodes.push_back({layer.name(),
                          layer.class_name(),
                          own.empty() ? "keras.layers" : std::string(own),
                          layer.config(),
                          layer.name(),
                          nullptr,
                          {}});
  }
  if (tree.sequential) return tree;
  std::vector<TreeTensor> made;  // by the model's calls, output 0
  const auto tensor_of = [&](Tensor tensor) {
    TreeTensor found = made[tensor.call.index()];
    found.output = tensor.output;
    return found;
  };
  for (const layers::LayerCall& call : model.calls()) {
    TreeNode& node = tree.nodes[call.layer.index()];
    std::vector<TreeTensor> inputs;
    for (const Tensor input : call.inputs) inputs.push_back(tensor_of(input));
    made.push_back({call.layer.index(), node.calls.size(), 0});
    TreeCall written = plain_call(std::move(inputs));
    if (!call.arguments.is_null()) {
      written.args = call.arguments.at("args");
      written.kwargs = call.arguments.at("kwargs");
    }
    written.output_types = call.output_types;
    node.calls.push_back(std::move(written));
  }
  for (const layers::ModelPort& port : model.inputs())
    tree.inputs.push_back(tensor_of(port.tensor));
  for (const layers::ModelPort& port : model.outputs()) {
    tree.outputs.push_back(tensor_of(port.tensor));
  }
  tree.input_structure = port_list(tree.inputs.size());
  tree.output_structure = port_list(tree.outputs.size());
  return tree;
}

ModelTree keras_tree(const Model& model) {
  return model.tree() != nullptr ? *model.tree() : tree_of(model);
}

Config write_architecture(const Model& model) {
  model.check_complete();
  const TreeWriter writer(model);
  return model.tree() != nullptr ? writer.write(*model.tree()) : writer.write(tree_of(model));
}

}  // namespace plimsoll::formats
