#pragma once

// TensorFlow functions that tf.keras 2.4 to 2.15 lists among a model's layers (`a + b`,
// tf.nn.relu(x), x[:, 0]), as the operators of keras.ops that they are. Internal to formats.
//
//   {"class_name": "TFOpLambda", "config": {"function": "__operators__.add"},
//    "inbound_nodes": [["x", 0, 0, {"y": ["z", 0, 0], "name": null}]]}
//   becomes Add of module keras.src.ops.numpy, called on (x, z).
//
// A function is a name in a table; no code is run for it. What is not in the table is refused.

#include "formats/keras/keras_json_impl.h"
#include "layers/model/model_tree.h"

namespace plimsoll::formats {

// Whether a layer of this class stands for such a function.
bool is_tensorflow_function(const std::string& class_name);

// Throws kModel where the configuration names a function that is none of these.
void check_tensorflow_function(const LayerEntry& entry, const JsonSource& source);

// Makes the node an operator; its calls were read. Throws kModel.
void translate_tensorflow_function(layers::TreeNode& node, const JsonSource& source);

}  // namespace plimsoll::formats
