#pragma once

// The architecture of a Keras model in JSON, to and from layers::Model.
//
// Read are `model.to_json()`, the config.json of a .keras file, "model_config" of an HDF5 file and
// a bare `get_config()`, of Keras 1, 2 and 3, models inside models and operator nodes among them.
// What is read is data: nothing in it names code that would run. Refused by name and reason: custom
// and unknown layers, calls with arguments that a layer does not take, cyclic or broken graphs,
// precisions other than float32, mixed_bfloat16 and mixed_float16. Written is Keras 3's form.
//
//   {"module": …, "class_name": "Functional", "config": {"name": …, "layers": [
//      {"class_name": "Dense", "name": …, "config": {…}, "inbound_nodes": [call, call, …]}, …],
//      "input_layers": [[layer, call, tensor], …], "output_layers": […]}}

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "layers/config/config.h"
#include "layers/model/model.h"

namespace plimsoll::formats {

// More layers, or more tensors among the inputs of their calls, are refused.
constexpr int64_t kMaxLayers = 10'000;
constexpr int64_t kMaxTensors = 100'000;

// Sizes per sample of a model's inputs, in the file's order of InputLayers; fewer than there are
// inputs: the others as the file says. They fill in what a file leaves open ([null, null, 3]).
using InputShapes = std::vector<std::vector<int64_t>>;

// What Keras keeps beside the configuration; none: it is not there. Both bound what they read.
struct Assets {
  // A file ("layers/string_lookup/vocabulary.txt").
  std::function<std::optional<std::string>(const std::string& path)> text;
  // Numbers that are no weights of a layer ("layers/string_lookup/vars/idf_weights").
  std::function<std::optional<std::vector<float>>(const std::string& path)> numbers;
};

// `origin` names the file in messages; `assets`: null where there are none. Throws kModel.
layers::Model read_architecture(const layers::Config& json, const std::string& origin,
                                const InputShapes& shapes = {}, const Assets* assets = nullptr);

// {"module", "class_name", "config", "registered_name"}: what `to_json` gives but for the training
// configuration. Layers stand in the order in which Keras will list them (keras_order.h).
layers::Config write_architecture(const layers::Model& model);

}  // namespace plimsoll::formats
