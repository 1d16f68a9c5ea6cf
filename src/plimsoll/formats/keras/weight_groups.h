#pragma once

// Where a file keeps each weight of a model. Internal to formats.
//
// A .keras file (and a .weights.h5) has one group per object that owns weights, nested as objects
// are, and numbers the weights in it. An older HDF5 file has one group per layer of the top level
// and lists all weights below it, trained ones first. Both follow from the tree of the model.

#include <memory>
#include <string>
#include <vector>

#include "base/input_lookup.h"
#include "base/tensor_io.h"
#include "layers/model/model.h"
#include "layers/model/model_tree.h"

namespace plimsoll::formats {

// The weights that one object of a .keras file owns.
struct WeightGroup {
  std::string name;  // of the layer, for the file's "name" and for messages
  std::string path;  // "layers/lstm/cell"
  std::vector<TensorInfo> weights;
  std::vector<bool> trainable;
  size_t repeated = 0;  // of the first weights: they are another group's, and not trained here
  // A layer that looks up and weighs words has these weights in its group, under a name.
  std::shared_ptr<const InputLookup> weighs{};
};
// How the groups of one class are numbered (keras_order.h).
enum class GroupCount : uint8_t { kOnce, kTwiceWithWeights };
// In the order in which Keras lists them, which is that of the optimizer's variables too.
std::vector<WeightGroup> archive_groups(const layers::Model& model, const layers::ModelTree& tree,
                                        GroupCount count = GroupCount::kOnce);

// The weights of one layer of the top level, models among them, as an older HDF5 file lists them.
struct LayerWeights {
  std::string name;
  std::string class_name;
  layers::Config config;  // of a layer
  std::vector<TensorInfo> weights;
};
// kFile: as the layers stand in the file that the tree was read from; kKeras: as Keras 3 will list
// them. `keras_major`: in Keras 2 a frozen model lists what could be trained in front.
enum class ListOrder : uint8_t { kFile, kKeras };
std::vector<LayerWeights> layer_weights(const layers::Model& model, const layers::ModelTree& tree,
                                        ListOrder order, int keras_major);

// The optimizer's variables in Keras's order, with their shapes. Throws kModel for an optimizer
// that is not known.
std::vector<TensorInfo> optimizer_tensors(const layers::Config& optimizer,
                                          const std::vector<WeightGroup>& groups);

// The same; none where the optimizer is not known, or none: that is said where it is used.
std::vector<TensorInfo> known_optimizer_tensors(const layers::Config& optimizer,
                                                const std::vector<WeightGroup>& groups);

}  // namespace plimsoll::formats
