#pragma once

// Layers that look up an input's strings or whole numbers, in a model's tree. Internal to formats.
//
// Such a layer stands directly after an input of the whole model, and is all that reads it: then
// data give the model what the layer gives (base/input_lookup.h). Anywhere else it is refused by
// name. A vocabulary that Keras keeps beside the configuration is put into it, so that everything
// that is written of the model has it.

#include <map>
#include <string>
#include <string_view>

#include "formats/keras/keras_json_impl.h"
#include "layers/model/model_tree.h"

namespace plimsoll::formats {

// What a layer of tf_idf calls the weights of its words, as an option and among its variables.
inline constexpr std::string_view kWeightsOfWords = "idf_weights";

// Completes vocabularies. For each input of the tree that is looked up, by its node, the layer:
// {"class_name": …, "config": …}. Throws kModel.
std::map<size_t, layers::Config> find_lookups(layers::ModelTree& tree, const JsonSource& source);

}  // namespace plimsoll::formats
