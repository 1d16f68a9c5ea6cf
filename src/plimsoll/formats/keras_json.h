#pragma once

// The architecture of a Keras model in JSON, to and from layers::Model.
//
// Read are `model.to_json()`, the config.json of a .keras file and a bare `get_config()`, of Keras
// 3 and of Keras 2 (lists for Sequential, nested lists for inbound nodes). What is read is data:
// nothing in it names code that would run. Refused by name and reason: custom and unknown layers,
// operator nodes, models inside models, calls with arguments that change what is computed, cyclic
// or broken graphs, precisions other than float32. Written is Keras 3's form.
//
//   {"module": …, "class_name": "Functional", "config": {"name": …, "layers": [
//      {"class_name": "Dense", "name": …, "config": {…}, "inbound_nodes": [call, call, …]}, …],
//      "input_layers": [[layer, call, tensor], …], "output_layers": […]}}

#include <string>

#include "layers/config.h"
#include "layers/model.h"

namespace plimsoll::formats {

// More layers, or more tensors among the inputs of their calls, are refused.
constexpr int64_t kMaxLayers = 10'000;
constexpr int64_t kMaxTensors = 100'000;

// `origin` names the file in messages. Throws kModel.
layers::Model read_architecture(const layers::Config& json, const std::string& origin);

// {"module", "class_name", "config", "registered_name"}: what `to_json` gives but for the training
// configuration. Layers stand in the order in which Keras will list them (keras_order.h).
layers::Config write_architecture(const layers::Model& model);

}  // namespace plimsoll::formats
