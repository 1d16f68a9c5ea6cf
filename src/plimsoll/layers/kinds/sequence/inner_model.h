#pragma once

// A Sequential or Functional model as a layer inside of another layer (TimeDistributed).
//
// Models inside of models are written out by formats (model_tree.h), where each layer is one of the
// flat model's. Inside of a wrapper they stay one layer: their weights are the wrapper's, called as
// a .keras file has them ("layers/conv2d/kernel", by class and by position in the file's list,
// which is Keras's). Both of Keras's forms of a graph are read, {"args", "kwargs"} and lists.

#include "layers/model/layer.h"

namespace plimsoll::layers {

bool is_inner_model(std::string_view class_name);  // Sequential, Functional, Model
std::shared_ptr<const Layer> make_inner_model(std::string_view class_name, const Config& config);

// A layer that stands in a wrapper: make_layer's, or such a model.
std::shared_ptr<const Layer> make_inner_layer(std::string_view class_name, const Config& config);

}  // namespace plimsoll::layers
