#pragma once

// Keras's JSON as a tree of models (layers/model/model_tree.h), the tree as a flat model, and the
// tree as JSON again. Internal to formats.
//
// Reading knows every form of a call that Keras wrote: Keras 3's args and kwargs with tensors
// inside, Keras 2's [[layer, call, output, kwargs], …], and tensors among those kwargs. Expanding
// makes one flat layer of each leaf, called "<model>/<layer>" where it is inside another model, and
// calls it as often as the models around it are called, so that shared models share weights.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/keras/keras_json.h"
#include "formats/keras/keras_json_impl.h"
#include "layers/model/model_tree.h"

namespace plimsoll::formats {

// Models inside models, at most.
constexpr int kMaxNesting = 16;
// Calls of layers once shared models are written out, at most.
constexpr size_t kMaxCalls = 50'000;

// `json` is a model's object or a bare configuration. Throws kModel.
layers::ModelTree read_tree(const layers::Config& json, const JsonSource& source);

// In which order the calls of a Functional are made: (node, call), the file's order among those
// that could be, or Keras's where it matters to results. Throws kModel for cycles.
struct TreeStep {
  size_t node = 0;
  size_t call = 0;
};
std::vector<TreeStep> tree_steps(const layers::ModelTree& tree, const JsonSource& source);

// Fills in the flat layers' names and the types of calls; the model keeps the tree.
layers::Model expand_tree(layers::ModelTree tree, const InputShapes& shapes,
                          const JsonSource& source);

// The tree of a model as its layers and calls stand.
layers::ModelTree tree_of(const layers::Model& model);
// The same, or that of the file which the model was read from.
layers::ModelTree keras_tree(const layers::Model& model);

}  // namespace plimsoll::formats
