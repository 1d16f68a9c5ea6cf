#include "formats/keras_json.h"
#include "formats/keras_json_impl.h"
#include "formats/keras_order.h"

namespace plimsoll::formats {
namespace {

using layers::CallId;
using layers::Config;
using layers::LayerId;
using layers::Model;
using layers::ModelKind;
using layers::Tensor;

Config shape_of(const layers::ValueType& type) {
  Config::Array dims;
  for (const Dim& dim : type.shape.dims()) {
    dims.emplace_back();
    if (!dim.of_batch) dims.back() = dim.count;
  }
  return dims;
}

Config write_layer(const layers::Layer& layer) {
  return keras_object("keras.layers", layer.class_name(), layer.config());
}

Config write_sequential(const Model& model, const KerasOrder& order) {
  Config config;
  config.set("name", model.name());
  config.set("trainable", true);
  config.set("dtype",
             keras_object("keras", "DTypePolicy", Config::Object{{"name", Config("float32")}}));
  Config::Array layers;
  for (const LayerId id : order.layers) layers.push_back(write_layer(model.layer(id)));
  config.set("layers", std::move(layers));
  config.set("build_input_shape", shape_of(model.inputs().front().type));
  return keras_object("keras", "Sequential", std::move(config));
}

class FunctionalWriter {
 public:
  explicit FunctionalWriter(const Model& model, const KerasOrder& order)
      : model_(model), order_(order), node_index_(model.calls().size(), 0) {
    for (const std::vector<CallId>& calls : order.calls) {
      for (size_t i = 0; i < calls.size(); ++i) node_index_[calls[i].index()] = i;
    }
  }

  Config write() const {
    Config config;
    config.set("name", model_.name());
    config.set("trainable", true);
    Config::Array layers;
    for (const LayerId id : order_.layers) layers.push_back(write_layer_with_calls(id));
    config.set("layers", std::move(layers));
    config.set("input_layers", write_ports(model_.inputs()));
    config.set("output_layers", write_ports(model_.outputs()));
    Config json = keras_object("keras.src.models.functional", "Functional", std::move(config));
    json.set("registered_name", "Functional");
    return json;
  }

 private:
  // [layer, call, output]
  Config history(Tensor tensor) const {
    const layers::LayerCall& call = model_.calls()[tensor.call.index()];
    return Config::Array{Config(model_.layer(call.layer).name()),
                         Config(static_cast<int64_t>(node_index_[tensor.call.index()])),
                         Config(tensor.output)};
  }
  Config write_tensor(Tensor tensor) const {
    const layers::ValueType& type = model_.type(tensor);
    return Config::Object{
        {"class_name", Config("__keras_tensor__")},
        {"config", Config(Config::Object{{"shape", shape_of(type)},
                                         {"dtype", Config(std::string(to_string(type.dtype)))},
                                         {"keras_history", history(tensor)}})}};
  }
  Config write_layer_with_calls(LayerId id) const {
    Config json = write_layer(model_.layer(id));
    json.set("name", model_.layer(id).name());
    Config::Array nodes;
    for (const CallId call : order_.calls[id.index()]) {
      Config::Array tensors;
      for (const Tensor& input : model_.calls()[call.index()].inputs) {
        tensors.push_back(write_tensor(input));
      }
      if (tensors.empty()) continue;  // an InputLayer
      Config::Array arguments;
      if (tensors.size() == 1) {
        arguments = std::move(tensors);
      } else {
        arguments.emplace_back(std::move(tensors));
      }
      nodes.push_back(Config::Object{{"args", Config(std::move(arguments))},
                                     {"kwargs", Config(Config::Object{})}});
    }
    json.set("inbound_nodes", std::move(nodes));
    return json;
  }
  // One port stands alone, so that Keras takes and gives one array and not a list of one.
  Config write_ports(const std::vector<layers::ModelPort>& ports) const {
    Config::Array list;
    for (const layers::ModelPort& port : ports) list.push_back(history(port.tensor));
    if (list.size() == 1) return list.front();
    return list;
  }

  const Model& model_;
  const KerasOrder& order_;
  std::vector<size_t> node_index_;  // per call
};

}  // namespace

Config keras_object(std::string_view module, std::string_view class_name, Config config) {
  return Config::Object{{"module", Config(std::string(module))},
                        {"class_name", Config(std::string(class_name))},
                        {"config", std::move(config)},
                        {"registered_name", Config()}};
}

Config write_architecture(const Model& model) {
  model.check_complete();
  const KerasOrder order = keras_order(model);
  return model.kind() == ModelKind::kSequential ? write_sequential(model, order)
                                                : FunctionalWriter(model, order).write();
}

}  // namespace plimsoll::formats
